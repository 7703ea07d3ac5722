// Data: records of an LMDB. As in Caffe, data_param.backend must say LMDB: the default is LEVELDB, which is
// not supported. rand_skip has no effect, as in Caffe.
#include <algorithm>

#include "banyan/base/text.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class DataLayer : public SourceLayer {
 public:
  using SourceLayer::SourceLayer;

 protected:
  Settings settings() const override {
    const caffe::DataParameter& from = parameter().data_param();
    if (from.source().empty()) refuse("data_param.source", "is missing");
    if (from.backend() != caffe::DataParameter::LMDB)
      refuse("data_param.backend",
             cat(from.has_backend() ? "is LEVELDB" : "is missing, and the format's default is LEVELDB",
                 ", which is not supported: convert ", banyan::quoted(from.source()),
                 " to LMDB if it is a LevelDB, and write \"backend: LMDB\""));
    if (from.has_mining_hard_param()) refuse("data_param.mining_hard_param", "is not supported");
    if (from.has_side()) refuse("data_param.side", "is not supported");
    Settings settings;
    settings.field = "data_param";
    settings.batch_size = from.batch_size();
    settings.batch_size_is_total = from.batch_size_is_total();
    settings.epoch_end = from.epoch_end() == caffe::PARTIAL ? data::EpochEnd::partial : data::EpochEnd::wrap;
    settings.shuffle = from.shuffle();
    settings.threads = static_cast<int>(std::clamp<std::uint32_t>(from.threads(), 1, 256));
    return settings;
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::TransformationParameter& transform = parameter().transform_param();
    data::LmdbOptions options;
    options.random_access = parameter().data_param().shuffle();
    if (transform.force_color()) options.color = data::ColorMode::bgr;
    if (transform.force_gray()) options.color = data::ColorMode::gray;
    return data::open_lmdb(parameter().data_param().source(), options);
  }
};

const RegisterLayer<DataLayer> registered("Data", {"records of an LMDB", "data_param", {}});

}  // namespace

}  // namespace banyan
