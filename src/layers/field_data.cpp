// ImageGtData (MS-CNN) and DetectionData (Cascade R-CNN): images with maps of the boxes that the positions of
// a detector shall find (data/field_data.hpp). Outputs: images N x 3 x H x W, for each map N x 6 x H / stride
// x W / stride (class, centre, width and height of a box, overlap), and with output_gt_boxes 1 x 1 x rows x 7
// (8 in DetectionData): image in the device's part of the batch, x1, y1, x2, y2, label, whether it is ignored
// (and difficult). The number of rows is the next power of two; the rest are -1.
//
// An item's draws depend on the seed, the layer's name and the item's number. With images of both
// orientations in a batch, that of its first one is that of all. Batches of `random_aspect` seldom have both:
// high images are visited before wide ones, or after them; with `random_mix_aspect` groups of mix_group_size
// of one kind each are, in a random order, and images stay in their group.
#include "banyan/data/field_data.hpp"

#include <atomic>

#include "banyan/base/text.hpp"
#include "layers/source_layer.hpp"

namespace banyan {
namespace {

class FieldDataLayer : public SourceLayer {
 public:
  FieldDataLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : SourceLayer(parameter, options, {0, 0, 1, -1}) {}

  void seek(std::uint64_t consumed) override {
    SourceLayer::seek(consumed);
    *begin_ = consumed;
  }

 protected:
  Settings settings() const override {
    Settings settings;
    const auto read = [&](const auto& from, const char* field) {
      settings.field = field;
      settings.batch_size = from.batch_size();
      if (from.source().empty()) refuse(settings.field + ".source", "is missing");
    };
    if (of_mscnn()) {
      read(parameter().image_gt_data_param(), "image_gt_data_param");
      settings.shuffle = parameter().image_gt_data_param().shuffle();
    } else {
      read(parameter().detection_data_param(), "detection_data_param");
      settings.shuffle = parameter().detection_data_param().has_shuffle();
    }
    return settings;
  }

  void check_transform() const override { data::field_data_settings(parameter()); }

  std::shared_ptr<data::RecordSource> open() const override {
    data::BoxListOptions options;
    if (of_mscnn()) {
      const auto& from = parameter().image_gt_data_param();
      options.root_folder = from.root_folder();
      options.object_images = static_cast<int>(from.fg_img_multiple());
      return data::open_box_list(from.source(), options);
    }
    const auto& from = parameter().detection_data_param();
    options.root_folder = from.root_folder();
    options.difficult = true;
    options.by_aspect = from.has_shuffle() && from.shuffle() != "random";
    if (from.shuffle() == "random_mix_aspect") options.part = from.mix_group_size();
    return data::open_box_list(from.source(), options);
  }

  std::shared_ptr<const data::ItemWriter> make_writer(const data::RecordSource& source) const override {
    const auto& boxes = dynamic_cast<const data::BoxListSource&>(source);
    const Settings how = settings();
    const std::uint64_t images = source.size(), batch = items_per_batch(how);
    const auto order =
        std::make_shared<data::EpochOrder>(images, how.shuffle, key_of("order"), source.parts());
    const auto leader = [=, begin = begin_](std::uint64_t item) {
      const std::uint64_t first = item - (item - *begin) % batch;
      return order->record(first / images, first % images);
    };
    return std::make_shared<data::FieldDataWriter>(data::field_data_settings(parameter()),
                                                   boxes.shared_list(), leader, key_of("boxes"));
  }

 private:
  bool of_mscnn() const { return type() == "ImageGtData"; }

  /// The item that a batch begins with: after a run with other batches it may be any.
  std::shared_ptr<std::atomic<std::uint64_t>> begin_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

const RegisterLayer<FieldDataLayer> registered_image_gt_data(
    "ImageGtData",
    {"images with maps of the boxes that fields shall find (MS-CNN)", "image_gt_data_param", {}});
const RegisterLayer<FieldDataLayer> registered_detection_data(
    "DetectionData",
    {"images with maps of the boxes that fields shall find (Cascade R-CNN)", "detection_data_param", {}});

}  // namespace
}  // namespace banyan
