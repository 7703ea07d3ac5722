// The settings of ImageGtData, DetectionData and EvalData.
#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "banyan/base/text.hpp"
#include "banyan/data/augmenter.hpp"
#include "banyan/data/field_data.hpp"
#include "data/distortion.hpp"
#include "data/range_check.hpp"

namespace banyan::data {
namespace {

constexpr int kLongestResult = 1 << 15;

class FieldSettingsReader {
 public:
  explicit FieldSettingsReader(const caffe::LayerParameter& layer)
      : layer_(layer), of_mscnn_(layer.type() == "ImageGtData") {
    to_.whole = layer.type() == "EvalData";
    to_.field = of_mscnn_ ? "image_gt_data_param" : to_.whole ? "eval_data_param" : "detection_data_param";
  }

  FieldDataSettings run() {
    read_transform();
    if (of_mscnn_)
      read_image_gt(layer_.image_gt_data_param());
    else if (to_.whole)
      read_eval(layer_.eval_data_param());
    else
      read_detection(layer_.detection_data_param());
    return to_;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    bad_input("layer ", quoted(layer_.name()), ": ", parts...);
  }
  void check(const char* field, double value, double low, double high = HUGE_VAL) const {
    RangeCheck{layer_.name(), to_.field}(field, value, low, high);
  }
  void both(bool one, bool other, const char* names) const {
    if (one != other) refuse(to_.field, " must set both of ", names, ", or neither");
  }

  void read_transform() {
    const caffe::TransformationParameter& transform = layer_.transform_param();
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    caffe::TransformationParameter::GetReflection()->ListFields(transform, &fields);
    for (const auto* field : fields)
      if (field->name() != "scale" && (field->name() != "mirror" || to_.whole) &&
          field->name() != "mean_value" && !changes_nothing(transform, *field))
        refuse("transform_param may hold scale", to_.whole ? "" : ", mirror", " and mean_value only in ",
               layer_.type(), "; found ", field->name());
    if (transform.mean_value_size() > 1 && transform.mean_value_size() != 3)
      refuse("transform_param.mean_value must have 1 or 3 values, not ", transform.mean_value_size());
    to_.means.assign(transform.mean_value().begin(), transform.mean_value().end());
    to_.mirror = transform.mirror();
    to_.scale = transform.scale();
  }

  /// Of both messages.
  template <class From, class Strides>
  void read_common(const From& from, const Strides& strides, const char* stride) {
    if (from.has_scale()) to_.scale = from.scale();
    if (from.coord_num() != 4) refuse(to_.field, ".coord_num must be 4, not ", from.coord_num());
    const int maps = strides.size();
    if (from.field_h_size() != maps || from.field_w_size() != maps)
      refuse(to_.field, " must give ", stride,
             ", field_h and field_w equally often, once for each map; found ", maps, ", ",
             from.field_h_size(), " and ", from.field_w_size());
    for (int m = 0; m < maps; ++m) {
      check(stride, strides.Get(m), 1, kLongestResult);
      check("field_h", from.field_h(m), 1e-3);
      check("field_w", from.field_w(m), 1e-3);
      to_.rules.maps.push_back({strides.Get(m), from.field_w(m), from.field_h(m)});
    }
    check("fg_threshold", from.fg_threshold(), 1e-6, 1);
    to_.rules.fg_threshold = from.fg_threshold();
    both(from.has_resize_width(), from.has_resize_height(), "resize_width and resize_height");
    for (const std::uint32_t length :
         {from.resize_width(), from.resize_height(), from.crop_width(), from.crop_height()})
      if (length > kLongestResult)
        refuse(to_.field, " must have sizes of at most ", kLongestResult, ", not ", length);
    to_.resize_width = static_cast<int>(from.resize_width());
    to_.resize_height = static_cast<int>(from.resize_height());
    to_.crop_width = static_cast<int>(from.crop_width());
    to_.crop_height = static_cast<int>(from.crop_height());
    to_.least_width = from.min_gt_width();
    to_.least_height = from.min_gt_height();
    both(from.has_min_whaspect(), from.has_max_whaspect(), "min_whaspect and max_whaspect");
    if (from.has_min_whaspect()) {
      check("min_whaspect", from.min_whaspect(), 0.01, 100);
      check("max_whaspect", from.max_whaspect(), from.min_whaspect(), 100);
      to_.least_aspect = from.min_whaspect();
      to_.largest_aspect = from.max_whaspect();
    }
    both(from.has_min_scale(), from.has_max_scale(), "min_scale and max_scale");
    if (from.has_min_scale()) {
      check("min_scale", from.min_scale(), 1, kLongestResult);
      check("max_scale", from.max_scale(), from.min_scale(), kLongestResult);
      to_.least_size = from.min_scale();
      to_.largest_size = from.max_scale();
    }
    to_.boxes = from.output_gt_boxes();
    const int outputs = 1 + maps + (to_.boxes ? 1 : 0);
    if (layer_.top_size() != outputs)
      refuse("expected ", outputs, " tops: the images, ", maps, " maps", to_.boxes ? " and the boxes" : "",
             "; found ", layer_.top_size());
  }

  void read_image_gt(const caffe::ImageGtDataParameter& from) {
    if (!from.mean_file().empty()) refuse(to_.field, ".mean_file is not supported; mean_value is");
    read_common(from, from.downsample_rate(), "downsample_rate");
    check("fg_img_multiple", from.fg_img_multiple(), 1, 1000);
    to_.rules.corners = Corners::points;
    to_.pads = false;
    to_.octaves = true;
    to_.scale_probability = from.do_multiple_scale() && from.has_min_scale() ? 0.5 : 0;
  }

  void read_sides(const char* field, std::uint32_t shorter, std::uint32_t longer, int& to_short,
                  int& to_long) const {
    check(field, shorter, 16, kLongestResult);
    if (longer < shorter || longer > kLongestResult)
      refuse(to_.field, " must have a long size of at least ", shorter, " and at most ", kLongestResult,
             ", not ", longer);
    to_short = static_cast<int>(shorter);
    to_long = static_cast<int>(longer);
  }

  void read_eval(const caffe::EvalDataParameter& from) {
    if (from.has_scale()) to_.scale = from.scale();
    both(from.has_resize_width(), from.has_resize_height(), "resize_width and resize_height");
    both(from.has_short_size(), from.has_long_size(), "short_size and long_size");
    if (from.has_resize_width()) {
      check("resize_width", from.resize_width(), 16, kLongestResult);
      check("resize_height", from.resize_height(), 16, kLongestResult);
      to_.resize_width = static_cast<int>(from.resize_width());
      to_.resize_height = static_cast<int>(from.resize_height());
    } else if (from.batch_size() != 1) {
      refuse(to_.field, ".batch_size must be 1, not ", from.batch_size(),
             ", unless resize_width and resize_height give all images one size");
    }
    if (from.has_short_size())
      read_sides("short_size", from.short_size(), from.long_size(), to_.short_size, to_.long_size);
    to_.boxes = to_.difficult = true;
    if (layer_.top_size() < 2)
      refuse("expected 2 or 3 tops: the images, the boxes and perhaps the images' sizes; found ",
             layer_.top_size());
  }

  void read_detection(const caffe::DetectionDataParameter& from) {
    if (from.template_ratio_size() > 0) refuse(to_.field, ".template_ratio is not supported");
    read_common(from, from.stride(), "stride");
    to_.difficult = true;
    to_.rules.ignore_threshold = from.ignore_fg_threshold();
    to_.rules.own_threshold = from.pickup_iou_thr();
    if (from.has_anchor_ignore_margin_ratio()) to_.rules.margin = from.anchor_ignore_margin_ratio();
    if (from.has_anchor_ignore_iou_thr()) to_.rules.margin_overlap = from.anchor_ignore_iou_thr();
    both(from.has_short_size(), from.has_long_size(), "short_size and long_size");
    both(from.crop_width() > 0, from.crop_height() > 0, "crop_width and crop_height");
    both(from.has_crop_short_size(), from.has_crop_long_size(), "crop_short_size and crop_long_size");
    if ((from.has_resize_width() ? 1 : 0) + (from.has_resize_ratio() ? 1 : 0) +
            (from.has_short_size() ? 1 : 0) >
        1)
      refuse(to_.field, " may have one of resize_width, resize_ratio and short_size");
    if (from.has_crop_short_size() && from.crop_width() > 0)
      refuse(to_.field, " may have one of crop_width and crop_short_size");
    if (from.has_resize_ratio()) check("resize_ratio", from.resize_ratio(), 0.01, 100);
    to_.resize_ratio = from.resize_ratio();
    if (from.has_short_size())
      read_sides("short_size", from.short_size(), from.long_size(), to_.short_size, to_.long_size);
    if (from.has_crop_short_size())
      read_sides("crop_short_size", from.crop_short_size(), from.crop_long_size(), to_.crop_short,
                 to_.crop_long);
    both(from.has_low_scale_ratio(), from.has_high_scale_ratio(), "low_scale_ratio and high_scale_ratio");
    if (from.has_low_scale_ratio()) {
      if (from.has_min_scale()) refuse(to_.field, " may have one of min_scale and low_scale_ratio");
      check("low_scale_ratio", from.low_scale_ratio(), 0.01, 100);
      check("high_scale_ratio", from.high_scale_ratio(), from.low_scale_ratio(), 100);
      to_.least_ratio = from.low_scale_ratio();
      to_.largest_ratio = from.high_scale_ratio();
    }
    check("multiscale_prob", from.multiscale_prob(), 0, 1);
    if (from.has_min_scale() || from.has_low_scale_ratio()) to_.scale_probability = from.multiscale_prob();
    if (from.has_distort_param()) check_distortion(from.distort_param(), layer_.name());
    to_.distortion = from.distort_param();
    if (from.has_shuffle() && from.shuffle() != "random" && from.shuffle() != "random_aspect" &&
        from.shuffle() != "random_mix_aspect")
      refuse(to_.field, ".shuffle must be \"random\", \"random_aspect\" or \"random_mix_aspect\", not ",
             quoted(from.shuffle()));
    check("mix_group_size", from.mix_group_size(), 1);
  }

  const caffe::LayerParameter& layer_;
  bool of_mscnn_;
  FieldDataSettings to_;
};

}  // namespace

bool makes_field_data(const caffe::LayerParameter& layer) {
  return layer.type() == "ImageGtData" || layer.type() == "DetectionData" || layer.type() == "EvalData";
}

FieldDataSettings field_data_settings(const caffe::LayerParameter& layer) {
  return FieldSettingsReader(layer).run();
}

Shape field_data_shape(const FieldDataSettings& settings, const Shape& images, std::size_t k) {
  if (k == 0) return images;
  if (settings.whole && k == 2) return {images[0], 2};
  if (k > settings.rules.maps.size()) return {1, 1, 1, settings.difficult ? 8 : 7};
  const FieldGrid grid =
      grid_of(settings.rules.maps[k - 1], static_cast<int>(images[2]), static_cast<int>(images[3]));
  return {images[0], 6, grid.rows, grid.columns};
}

}  // namespace banyan::data
