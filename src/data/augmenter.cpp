#include "banyan/data/augmenter.hpp"

#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/augment_rows.hpp"
#include "data/noise.hpp"

namespace banyan::data {

namespace {

constexpr const char* kOfSegData =
    "only SegData, whose images have no common size, limits their sides; crop_size gives one size";

constexpr const char* kOfImageLayers = "only Data and ImageData take it";

/// Why a field of a branch has nothing to take its place, or what does.
constexpr std::pair<const char*, const char*> kReasons[] = {
    {"bgr2rgb",
     "channels stay in the order blue, green, red; swap them when the data are made, or the inputs of the "
     "first layer's weights"},
    {"eigs", kOfImageLayers},
    {"eigs_channels", kOfImageLayers},
    {"emit_constraint", "it chooses among the boxes of an image, which only AnnotatedData reads; remove it"},
    {"expand_param",
     "only AnnotatedData puts images on a larger canvas; pad adds a border of zeros before a crop"},
    {"noise_param",
     "only Data, ImageData and AnnotatedData change images by it; distort_param and lighting_noise change "
     "colours in layers that have them"},
    {"num_labels", "image_data_param.label_dim says how many labels a line of a list has"},
    {"rand_crop_test", kOfImageLayers},
    {"resize_param",
     "only Data, ImageData and AnnotatedData resize images by it; new_height and new_width do in layers that "
     "have them"},
    {"scale_factors",
     "only ImageSegData scales by one of several factors; img_rand_resize_lower and _upper draw a length of "
     "the shorter side"},
    {"short_edge", kOfImageLayers},
    {"stride",
     "only SegData, whose images have no common size, cuts their sides to multiples; crop_size gives one "
     "size"},
    {"upper_height", kOfSegData},
    {"upper_size", kOfSegData},
    {"upper_width", kOfSegData},
};

/// Every field that is set must take effect here (or be one that cannot change the result).
void check_fields(const caffe::TransformationParameter& settings, const std::string& layer) {
  static const std::vector<std::string> known = {
      "scale",       "mirror",     "crop_size",   "crop_h",     "crop_w",
      "crop_height", "crop_width", "mean_file",   "mean_value", "force_color",
      "force_gray",  "pad",        "random_seed", "display",    "use_gpu_transform"};
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  caffe::TransformationParameter::GetReflection()->ListFields(settings, &fields);
  for (const auto* field : fields) {
    if (contains(known, field->name()) || changes_nothing(settings, *field)) continue;
    const auto* const reason = std::find_if(std::begin(kReasons), std::end(kReasons),
                                            [&](const auto& entry) { return field->name() == entry.first; });
    bad_input("layer ", banyan::quoted(layer), ": transform_param.", field->name(), " is not supported",
              reason == std::end(kReasons) ? std::string() : cat(": ", reason->second));
  }
}

std::vector<int> dims_of(const caffe::BlobProto& blob) {
  std::vector<int> dims;
  for (const auto dim : blob.shape().dim())
    dims.push_back(static_cast<int>(std::clamp<std::int64_t>(dim, 0, 1 << 30)));
  if (!blob.has_shape()) dims = {blob.num(), blob.channels(), blob.height(), blob.width()};
  if (dims.size() == 4 && dims[0] == 1) dims.erase(dims.begin());
  // Of a volume, the frames are part of the channels.
  if (dims.size() == 5 && dims[0] == 1 && std::int64_t{dims[1]} * dims[2] <= 1 << 30)
    dims = {dims[1] * dims[2], dims[3], dims[4]};
  return dims;
}

/// C3D's have five axes in the fields 1 to 5, and their values in field 6, where others have differences.
void read_as_volume(caffe::BlobProto& blob) {
  const auto& unknown = blob.GetReflection()->GetUnknownFields(blob);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() != 5 ||
        unknown.field(i).type() != google::protobuf::UnknownField::TYPE_VARINT)
      continue;
    const auto fifth = static_cast<std::int32_t>(unknown.field(i).varint());
    for (const std::int32_t dim : {blob.num(), blob.channels(), blob.height(), blob.width(), fifth})
      blob.mutable_shape()->add_dim(dim);
    blob.mutable_data()->Swap(blob.mutable_diff());
    return;
  }
}

/// Is the field as if it were absent?
bool has_default(const google::protobuf::Message& settings, const google::protobuf::FieldDescriptor& field) {
  std::string written, absent;
  using google::protobuf::TextFormat;
  const std::unique_ptr<google::protobuf::Message> none(settings.New());
  TextFormat::PrintFieldValueToString(settings, &field, -1, &written);
  TextFormat::PrintFieldValueToString(*none, &field, -1, &absent);
  return written == absent;
}

}  // namespace

bool changes_nothing(const caffe::TransformationParameter& settings,
                     const google::protobuf::FieldDescriptor& field) {
  if (field.name() == "forward_packing") return true;  // NVIDIA's hint; the net chooses the order in memory
  if (field.name() == "expand_param") return settings.expand_param().prob() == 0;
  if (field.name() == "noise_param") return !has_noise(settings.noise_param());
  // Without interpolation_algo_down and _up images are resized linearly, not by these fields' defaults.
  if (field.is_repeated() || field.message_type() != nullptr || field.name().starts_with("interpolation_"))
    return false;
  return has_default(settings, field);
}

void check_transform(const caffe::TransformationParameter& settings, const std::string& layer) {
  check_fields(settings, layer);
  constexpr std::uint32_t kMost = 1 << 15;
  if (settings.pad() > kMost || settings.crop_size() > kMost)
    bad_input("layer ", banyan::quoted(layer), ": transform_param.pad and crop_size must be at most ", kMost);
  if (rectangle_side(settings) > kMost)
    bad_input("layer ", banyan::quoted(layer), ": transform_param.crop_h and crop_w must be at most ", kMost);
  if (const CropSize crop = crop_of(settings); (crop.height == 0) != (crop.width == 0))
    bad_input("layer ", banyan::quoted(layer),
              ": transform_param needs both of crop_h and crop_w, or crop_size");
  if (settings.force_color() && settings.force_gray())
    bad_input("layer ", banyan::quoted(layer), ": transform_param sets both force_color and force_gray");
  if (settings.has_mean_file() && settings.mean_value_size() > 0)
    bad_input("layer ", banyan::quoted(layer), ": transform_param sets both mean_file and mean_value");
}

std::uint32_t rectangle_side(const caffe::TransformationParameter& settings) {
  return std::max({settings.crop_h(), settings.crop_w(), settings.crop_height(), settings.crop_width()});
}

CropSize crop_of(const caffe::TransformationParameter& settings) {
  // The names of SSD and of yjxiong's early branch.
  const auto side = [&](std::uint32_t own, std::uint32_t early) {
    return static_cast<int>(own > 0 ? own : early > 0 ? early : settings.crop_size());
  };
  return {side(settings.crop_h(), settings.crop_height()), side(settings.crop_w(), settings.crop_width())};
}

std::string ItemShape::to_string() const { return cat(channels, " x ", height, " x ", width); }

MeanImage read_mean_image(const std::string& path, const std::string& layer) {
  constexpr std::size_t kMost = std::size_t{1} << 31;
  const std::string name = cat("layer ", banyan::quoted(layer), ": mean_file ", banyan::quoted(path));
  const auto bytes = [&] {
    try {
      return io::read_file(path, kMost);
    } catch (const Error& error) {
      throw Error(error.kind(), cat("layer ", banyan::quoted(layer), ": mean_file: ", error.message()));
    }
  };
  caffe::BlobProto blob;
  if (!blob.ParseFromString(bytes())) bad_input(name, " is not a binary BlobProto");
  read_as_volume(blob);
  const std::vector<int> dims = dims_of(blob);
  if (dims.size() != 3 || dims[0] < 1 || dims[1] < 1 || dims[2] < 1)
    bad_input(name, " does not hold exactly one image");
  constexpr double kMostValues = 1e10;  // values; what follows multiplies them in 64 bits
  if (static_cast<double>(dims[0]) * dims[1] * dims[2] > kMostValues)
    bad_input(name, " says that it has ", dims[0], " x ", dims[1], " x ", dims[2], " values");
  MeanImage mean{{dims[0], dims[1], dims[2]}, {blob.data().begin(), blob.data().end()}};
  if (blob.data_size() == 0)
    for (const double value : blob.double_data()) mean.values.push_back(static_cast<float>(value));
  if (static_cast<std::int64_t>(mean.values.size()) != mean.shape.count())
    bad_input(name, " says ", mean.shape.to_string(), " = ", mean.shape.count(), " values, but holds ",
              mean.values.size());
  return mean;
}

Augmenter::Augmenter(const caffe::TransformationParameter& settings, bool random_crop, std::uint64_t seed,
                     std::uint32_t stream, const std::string& layer)
    : mean_file_(settings.mean_file()),
      pad_(static_cast<int>(settings.pad())),
      crop_(crop_of(settings)),
      random_crop_(random_crop),
      mirror_(settings.mirror()),
      scale_(settings.scale()),
      mean_values_(settings.mean_value().begin(), settings.mean_value().end()) {
  check_transform(settings, layer);
  const bool own_seed = settings.random_seed() >= 0;
  key_ = {own_seed ? static_cast<std::uint64_t>(settings.random_seed()) : seed, stream, 0};
  if (mean_file_.empty()) return;
  MeanImage mean = read_mean_image(mean_file_, layer);
  mean_shape_ = mean.shape;
  mean_image_ = std::move(mean.values);
}

void Augmenter::cut_mean(int side, const std::string& layer) {
  if (mean_image_.empty()) return;
  const ItemShape whole = mean_shape_;
  if (whole.height < side || whole.width < side)
    bad_input("layer ", banyan::quoted(layer), ": mean_file ", banyan::quoted(mean_file_), " is ",
              whole.to_string(), ", smaller than crop_size ", side);
  const std::ptrdiff_t top = (whole.height - side) / 2, left = (whole.width - side) / 2;
  std::vector<float> middle;
  for (std::ptrdiff_t c = 0; c < whole.channels; ++c)
    for (std::ptrdiff_t y = top; y < top + side; ++y) {
      const auto row = mean_image_.begin() + (c * whole.height + y) * whole.width + left;
      middle.insert(middle.end(), row, row + side);
    }
  mean_shape_ = {whole.channels, side, side};
  mean_image_ = std::move(middle);
}

ItemShape Augmenter::output_shape(const Record& record) const {
  const ItemShape stored{record.channels, record.height, record.width};
  if (!mean_image_.empty() && mean_shape_ != stored)
    bad_input("the image is ", stored.to_string(), ", but mean_file ", banyan::quoted(mean_file_), " is ",
              mean_shape_.to_string());
  if (mean_values_.size() > 1 && static_cast<int>(mean_values_.size()) != record.channels)
    bad_input("transform_param has ", mean_values_.size(),
              " values of mean_value (expected 1 or one per channel), but the image has ", record.channels,
              " channels");
  const int height = record.height + 2 * pad_, width = record.width + 2 * pad_;
  if (crop_.height == 0) return {record.channels, height, width};
  if (crop_.height > height || crop_.width > width)
    bad_input(crop_.height == crop_.width ? cat("crop_size ", crop_.height)
                                          : cat("the crop, ", crop_.height, " x ", crop_.width, ","),
              " is larger than the ", pad_ > 0 ? "padded " : "", "image (", height, " x ", width, ")");
  return {record.channels, crop_.height, crop_.width};
}

Augmenter::Window Augmenter::draw(const Record& record, const ItemShape& shape, std::uint64_t item) const {
  const ops::Philox4 draws = ops::philox(key_.key(), item, 0);
  const int free_rows = record.height + 2 * pad_ - shape.height;
  const int free_columns = record.width + 2 * pad_ - shape.width;
  Window window{free_rows / 2, free_columns / 2, mirror_ && draws.v[0] % 2 == 1};
  if (random_crop_) {
    window.top = static_cast<int>(draws.v[1] % static_cast<std::uint32_t>(free_rows + 1));
    window.left = static_cast<int>(draws.v[2] % static_cast<std::uint32_t>(free_columns + 1));
  }
  window.top -= pad_;
  window.left -= pad_;
  return window;
}

template <class T, class Pixel>
bool Augmenter::write_rows(const Record& record, const Pixel* pixels, const Window& window,
                           const ItemShape& shape, Layout layout, std::ptrdiff_t from, std::ptrdiff_t to,
                           T* output) const {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Pixel, std::uint8_t>) {
    const bool last = layout == Layout::channels_last;
    const ConvertRow convert =
        row_converter(shape.channels, record.interleaved, last, window.mirror, !mean_image_.empty());
    if (convert == nullptr) return false;
    using Index = std::ptrdiff_t;
    const Index in_width = record.width, in_x = record.interleaved ? shape.channels : 1;
    const Index out_x = last ? shape.channels : 1, left = window.left + from;
    PixelRow row;
    row.in_plane = row.mean_plane = record.height * in_width;
    row.out_plane = Index{shape.height} * shape.width;
    row.pixels = to - from;
    row.scale = scale_;
    for (std::size_t c = 0; c < row.mean.size() && !mean_values_.empty(); ++c)
      row.mean[c] = mean_values_[std::min(c, mean_values_.size() - 1)];
    for (Index y = std::max(0, -window.top); y < std::min(shape.height, record.height - window.top); ++y) {
      const Index source_y = y + window.top;
      row.in = pixels + (source_y * in_width + left) * in_x;
      if (!mean_image_.empty()) row.mean_image = mean_image_.data() + source_y * in_width + left;
      row.out = output + (y * shape.width + (window.mirror ? shape.width - 1 - from : from)) * out_x;
      convert(row);
    }
    return true;
  }
  return false;
}

template <class T, class Pixel>
void Augmenter::write_pixels(const Record& record, const Pixel* pixels, const Window& window,
                             const ItemShape& shape, Layout layout, T* output) const {
  using Index = std::ptrdiff_t;
  const Index channels = shape.channels, height = shape.height, width = shape.width;
  const Index in_height = record.height, in_width = record.width;
  const Index in_c = record.interleaved ? 1 : in_height * in_width;
  const Index in_x = record.interleaved ? channels : 1, in_y = in_x * in_width;
  const bool last = layout == Layout::channels_last;
  const Index out_c = last ? 1 : height * width, out_x = last ? channels : 1, out_y = out_x * width;
  const T scale = static_cast<T>(scale_);
  // Columns [from, to) of the window are inside the image; the others are padding.
  const Index from = std::clamp<Index>(-window.left, 0, width);
  const Index to = std::clamp<Index>(in_width - window.left, from, width);
  const bool inside_done = write_rows(record, pixels, window, shape, layout, from, to, output);
  for (Index c = 0; c < channels; ++c) {
    const T channel_mean =
        mean_values_.empty()
            ? T{0}
            : static_cast<T>(mean_values_[mean_values_.size() == 1 ? 0 : static_cast<std::size_t>(c)]);
    for (Index y = 0; y < height; ++y) {
      const Index source_y = y + window.top;
      const bool inside = source_y >= 0 && source_y < in_height;
      const Index mean_row = (c * in_height + std::clamp<Index>(source_y, 0, in_height - 1)) * in_width;
      // Output column of window column x: x itself, or mirrored.
      T* out = output + c * out_c + y * out_y + (window.mirror ? (width - 1) * out_x : 0);
      const Index step = window.mirror ? -out_x : out_x;
      const auto mean_at = [&](Index x) {
        if (mean_image_.empty()) return channel_mean;
        const Index source_x = std::clamp<Index>(x + window.left, 0, in_width - 1);
        return static_cast<T>(mean_image_[mean_row + source_x]);
      };
      const auto write_padding = [&](Index first, Index end) {
        for (Index x = first; x < end; ++x) out[x * step] = (T{0} - mean_at(x)) * scale;
      };
      if (!inside) {
        write_padding(0, width);
        continue;
      }
      write_padding(0, from);
      write_padding(to, width);
      if (inside_done) continue;
      const Pixel* in = pixels + c * in_c + source_y * in_y;
      if (mean_image_.empty()) {
        for (Index x = from; x < to; ++x)
          out[x * step] = (static_cast<T>(in[(x + window.left) * in_x]) - channel_mean) * scale;
      } else {
        const float* mean = mean_image_.data() + mean_row;
        for (Index x = from; x < to; ++x)
          out[x * step] =
              (static_cast<T>(in[(x + window.left) * in_x]) - static_cast<T>(mean[x + window.left])) * scale;
      }
    }
  }
}

template <class T>
void Augmenter::apply(const Record& record, std::uint64_t item, Layout layout, T* output) const {
  const ItemShape shape = output_shape(record);
  const Window window = draw(record, shape, item);
  if (record.bytes != nullptr)
    write_pixels(record, record.bytes, window, shape, layout, output);
  else
    write_pixels(record, record.floats, window, shape, layout, output);
}

std::vector<Shape> Augmenter::shapes(const Record& record, std::uint64_t) const {
  const ItemShape pixels = output_shape(record);
  const auto labels = static_cast<std::int64_t>(record.labels.size());
  return {Shape{pixels.channels, pixels.height, pixels.width}, labels > 0 ? Shape{labels} : Shape()};
}

void Augmenter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    apply(record, item, place.layout, static_cast<T*>(place.outputs[0]));
    T* const label = static_cast<T*>(place.outputs[1]);
    *label = static_cast<T>(record.label);
    std::copy(record.labels.begin(), record.labels.end(), label);
  });
}

template void Augmenter::apply<float>(const Record&, std::uint64_t, Layout, float*) const;
template void Augmenter::apply<double>(const Record&, std::uint64_t, Layout, double*) const;

}  // namespace banyan::data
