// Images of documents with numbers that are known of them, in the databases that DocData (ctensmeyer's Caffe)
// reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Throws bad_input for weights that make no sense and for labels that records do not have; opens nothing.
void check_documents(const caffe::DocDataParameter& settings, const std::string& layer);

/// Reads a serialized DocumentDatum.
class DocumentDecoder {
 public:
  explicit DocumentDecoder(const caffe::DocDataParameter& settings);
  /// Turns record.stored into pixels and the labels of the settings. Raw pixels are valid until the next
  /// call. Throws bad_input.
  void operator()(Record& record);

 private:
  std::vector<const google::protobuf::FieldDescriptor*> labels_;
  float missing_;
  caffe::DocumentDatum datum_;
};

/// Records of several databases, all of a batch of `batch` items from one of them, which is drawn by weight
/// for each batch; it goes on where its last batch ended. What is read follows from Record::item and
/// Record::batch, not from a position; an epoch has as many records as all databases together.
std::shared_ptr<RecordSource> mix_documents(std::vector<std::shared_ptr<RecordSource>> databases,
                                            const caffe::DocDataParameter& settings, std::uint64_t batch,
                                            const ops::RandomKey& key);

}  // namespace banyan::data
