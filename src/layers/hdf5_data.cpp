// HDF5Data: rows of HDF5 files named in a list. Every output is the dataset of its name. Batches run on
// across the files; shuffle draws a new order of the files, and of the rows within each, for every epoch.
#include "banyan/data/hdf5_source.hpp"
#include "layers/source_layer.hpp"

namespace banyan {

namespace {

class Hdf5DataLayer : public SourceLayer {
 public:
  Hdf5DataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 1, -1}, LayoutRule::contiguous) {}

 protected:
  Settings settings() const override {
    const caffe::HDF5DataParameter& from = parameter().hdf5_data_param();
    if (from.source().empty()) refuse("hdf5_data_param.source", "is missing");
    Settings settings;
    settings.field = "hdf5_data_param";
    settings.batch_size = from.batch_size();
    settings.shuffle = from.shuffle();
    return settings;
  }

  void check_transform() const override {
    if (parameter().has_transform_param())
      refuse("transform_param",
             "is not possible in HDF5Data, as in Caffe: store the values as the net needs them");
  }

  std::shared_ptr<data::RecordSource> open() const override {
    return data::open_hdf5_list(parameter().hdf5_data_param().source(),
                                {parameter().top().begin(), parameter().top().end()});
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource& source) const override {
    return std::make_shared<data::RowWriter>(dynamic_cast<const data::RowSource&>(source).rows());
  }
};

const RegisterLayer<Hdf5DataLayer> registered_hdf5_data("HDF5Data", {"rows of HDF5 files named in a list",
                                                                     "hdf5_data_param",
                                                                     {}});

}  // namespace

}  // namespace banyan
