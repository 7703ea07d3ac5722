// Data: records of an LMDB or a LevelDB. Where data_param.backend is missing, the folder's contents decide;
// in Caffe it means LEVELDB. rand_skip has no effect, as in Caffe.
#pragma once

#include <memory>
#include <string>

#include "layers/source_layer.hpp"

namespace banyan {

class DataLayer : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings settings() const override;
  std::shared_ptr<data::RecordSource> open() const override;
  /// Are the records SSD's AnnotatedDatum?
  virtual bool annotated() const { return false; }

 private:
  bool is_leveldb(const std::string& folder) const;
};

}  // namespace banyan
