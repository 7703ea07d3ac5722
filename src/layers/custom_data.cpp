// CustomData (FlowNet2): records of an LMDB that hold several blobs each, such as two images, the flow
// between them and where it is known (data/channel_slices.hpp). Outputs: each of them, N x C x H x W, and, if
// there is one top more, labels.

#include "banyan/base/text.hpp"
#include "banyan/data/channel_slices.hpp"
#include "layers/source_layer.hpp"

namespace banyan {
namespace {

class CustomDataLayer : public SourceLayer {
 public:
  CustomDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 1, -1}, LayoutRule::contiguous) {}

 protected:
  Settings settings() const override {
    const caffe::DataParameter& from = data();
    if (from.source().empty()) refuse("data_param.source", "is missing");
    if (from.has_backend() && from.backend() != caffe::DataParameter::LMDB)
      refuse("data_param.backend", "must be LMDB: CustomData reads no other databases, as in FlowNet2");
    refuse_unsupported();
    check_slices();
    if (from.has_preselection_file() != from.has_preselection_label())
      refuse("data_param.preselection_file", "and preselection_label come together");
    return settings_of(from);
  }

  void check_transform() const override {
    if (parameter().has_transform_param())
      refuse("transform_param", "is not possible in CustomData; DataAugmentation changes the images");
  }

  std::shared_ptr<data::RecordSource> open() const override {
    const caffe::DataParameter& from = data();
    data::ChannelSliceOptions options;
    options.slices = slices();
    options.shuffle = from.shuffle();
    data::RecordChoice& choice = options.choice;
    choice.label_file = from.preselection_file();
    choice.label = from.preselection_label();
    choice.first = from.range_start();
    choice.last = from.range_end();
    choice.permute = from.rand_permute();
    choice.range_first = from.rand_permute_order() == caffe::DataParameter::FIRST_RANGE_THEN_PERMUTE;
    choice.block = from.block_size();
    choice.key = key_of("permutation");
    if (from.rand_permute_seed() != 0) choice.key.seed = from.rand_permute_seed();
    return data::open_channel_slices(from.source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource&) const override {
    const caffe::DataParameter& from = data();
    return std::make_shared<data::ChannelSliceWriter>(
        slices(), std::vector<float>(from.subtract().begin(), from.subtract().end()), from.scale());
  }

 private:
  const caffe::DataParameter& data() const { return parameter().data_param(); }

  void refuse_unsupported() const {
    const caffe::DataParameter& from = data();
    if (from.has_mean_file()) refuse("data_param.mean_file", "is not supported; subtract takes numbers");
    if (from.crop_size() != 0)
      refuse("data_param.crop_size", "is not possible in CustomData, as in FlowNet2");
    if (from.mirror()) refuse("data_param.mirror", "is not possible without a crop_size, as in FlowNet2");
    if (from.rand_skip() != 0)
      refuse("data_param.rand_skip", "is not possible in CustomData, as in FlowNet2");
    if (from.permute_every_iter() != 0)
      refuse("data_param.permute_every_iter",
             "is not supported: shuffle: true gives the records another order in each epoch");
  }

  void check_slices() const {
    const caffe::DataParameter& from = data();
    for (int i = 0; i < from.slice_point_size(); ++i)
      if (from.slice_point(i) <= (i == 0 ? 0 : from.slice_point(i - 1)) || from.slice_point(i) > 1 << 20)
        refuse("data_param.slice_point",
               cat("must rise, from 1 on; number ", i + 1, " is ", from.slice_point(i)));
    const int slices = from.slice_point_size() + 1, tops = parameter().top_size();
    if (tops != slices && tops != slices + 1)
      refuse("data_param.slice_point",
             cat("makes ", slices, " blobs, or one more with labels; there are ", tops, " tops"));
    if (from.encoding_size() > slices)
      refuse("data_param.encoding", cat("has ", from.encoding_size(), " entries for ", slices, " blobs"));
  }

  data::ChannelSlices slices() const {
    data::ChannelSlices slices;
    slices.points.assign(data().slice_point().begin(), data().slice_point().end());
    for (const int encoding : data().encoding())
      slices.encodings.push_back(encoding == caffe::DataParameter::UINT16FLOW ? data::SliceEncoding::flow
                                 : encoding == caffe::DataParameter::BOOL1    ? data::SliceEncoding::bits
                                                                              : data::SliceEncoding::bytes);
    return slices;
  }
};

const RegisterLayer<CustomDataLayer> registered_custom_data(
    "CustomData", {"records of an LMDB that hold several images each (FlowNet2)", "data_param", {}});

}  // namespace
}  // namespace banyan
