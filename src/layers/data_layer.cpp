#include "layers/data_layer.hpp"

#include "banyan/base/text.hpp"
#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"

namespace banyan {

DataLayer::Settings DataLayer::settings() const {
  const caffe::DataParameter& from = parameter().data_param();
  if (from.source().empty())
    refuse("data_param.source", parameter_.has_input_param()
                                    ? "is missing; input_param is a setting of layers of type Input"
                                    : "is missing");
  if (from.has_backend() && from.backend() == caffe::DataParameter::LEVELDB && !data::has_leveldb())
    refuse("data_param.backend", cat("is LEVELDB, which this build of Banyan lacks: install libleveldb-dev "
                                     "and build again, or convert ",
                                     banyan::quoted(from.source()), " to LMDB"));
  if (from.has_mining_hard_param())
    refuse(
        "data_param.mining_hard_param",
        "is not supported: it names a list of `key label number`, of which yjxiong's branch reads as many "
        "records of each class; write an LMDB that holds as many of each and remove it, or weigh the classes "
        "by class_weighting of a SoftmaxWithLoss (weight_by_label_freqs: true)");
  if (from.has_side())
    refuse("data_param.side",
           "is not supported: it is the length of the grid of YOLO's labels; AnnotatedData reads boxes, from "
           "which RegionLoss and Yolov3 learn");
  return settings_of(from);
}

std::shared_ptr<data::RecordSource> DataLayer::open() const {
  const caffe::TransformationParameter& transform = parameter().transform_param();
  const std::string& folder = parameter().data_param().source();
  const bool shuffle = parameter().data_param().shuffle();
  const data::ColorMode color = transform.force_color()  ? data::ColorMode::bgr
                                : transform.force_gray() ? data::ColorMode::gray
                                                         : data::ColorMode::as_stored;
  if (is_leveldb(folder)) return data::open_leveldb(folder, {color, shuffle, annotated()});
  return data::open_lmdb(folder, {color, shuffle, annotated()});
}

bool DataLayer::is_leveldb(const std::string& folder) const {
  const caffe::DataParameter& from = parameter().data_param();
  if (from.has_backend()) return from.backend() == caffe::DataParameter::LEVELDB;
  return data::holds_leveldb(folder);
}

namespace {

const RegisterLayer<DataLayer> registered_data("Data", {"records of an LMDB or a LevelDB", "data_param", {}});

}  // namespace

}  // namespace banyan
