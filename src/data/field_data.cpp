#include "banyan/data/field_data.hpp"

#include <algorithm>
#include <cmath>

#include "banyan/base/error.hpp"
#include "data/distortion.hpp"
#include "data/resampling.hpp"

namespace banyan::data {
namespace {

constexpr int kLongestScaled = 1 << 15;

int nearest(double value) {
  if (!(std::abs(value) <= kLongestScaled))
    bad_input("the image would be longer than ", kLongestScaled, " pixels");
  return static_cast<int>(std::lround(value));
}
/// Rounded to a multiple of 32.
int whole_squares(int length) { return static_cast<int>(std::lround(length / 32.0)) * 32; }

void mirror(Image& image) {
  const std::ptrdiff_t channels = image.channels;
  for (int row = 0; row < image.height; ++row) {
    std::uint8_t* left = image.pixels.data() + std::ptrdiff_t{row} * image.width * channels;
    for (std::uint8_t* right = left + (image.width - 1) * channels; left < right;
         left += channels, right -= channels)
      std::swap_ranges(left, left + channels, right);
  }
}

/// Along one axis: `count` pixels of the image, `from` its first one, are seen from `to` on.
struct Seen {
  int from = 0, to = 0, count = 0;
};
/// An image of `length` pixels in a result of `wanted`: around `centre`, or in the middle if it is smaller.
Seen seen(int length, int wanted, double centre, int shift) {
  const int spare = wanted - length;
  if (spare > 0) return {0, std::clamp(nearest(spare / 2.0) + shift, 0, spare), length};
  return {std::clamp(nearest(centre) + shift - nearest(wanted / 2.0), 0, -spare), 0, wanted};
}

}  // namespace

std::array<int, 2> field_data_size(const FieldDataSettings& settings) {
  if (settings.crop_short > 0) return {settings.crop_short, settings.crop_long};
  if (settings.whole && settings.resize_width > 0)
    return {whole_squares(settings.resize_height), whole_squares(settings.resize_width)};
  const auto first = [](int crop, int resized, int side) {
    return crop > 0 ? crop : resized > 0 ? resized : whole_squares(side);
  };
  return {first(settings.crop_height, settings.resize_height, settings.short_size),
          first(settings.crop_width, settings.resize_width, settings.long_size)};
}

struct FieldDataWriter::Change {
  Distortion distortion;
  bool mirrored = false;
  Size first;     ///< to which the image is resized
  PixelBox part;  ///< of that
  Size second;    ///< to which the part is resized
  Size result;
  Seen across, down;
  std::vector<ListedBox> boxes;
  std::vector<Box> regions;

  /// x becomes x * by_x + x0, y likewise.
  void move(double by_x, double by_y, double x0, double y0) {
    const auto change = [&](Box& box) {
      box = {box.x1 * by_x + x0, box.y1 * by_y + y0, box.x2 * by_x + x0, box.y2 * by_y + y0};
    };
    for (ListedBox& listed : boxes) change(listed.box);
    for (Box& region : regions) change(region);
  }
  void mirror_boxes(double width) {
    move(-1, 1, width, 0);
    for (ListedBox& listed : boxes) std::swap(listed.box.x1, listed.box.x2);
    for (Box& region : regions) std::swap(region.x1, region.x2);
  }
  FieldFrame frame() const {
    return {result.height, result.width, down.to, across.to, down.count, across.count};
  }
};

FieldDataWriter::FieldDataWriter(const FieldDataSettings& settings, std::shared_ptr<const BoxList> list,
                                 std::function<std::uint64_t(std::uint64_t)> leader,
                                 const ops::RandomKey& key)
    : settings_(settings), list_(std::move(list)), leader_(std::move(leader)), key_(key) {}

FieldDataWriter::Size FieldDataWriter::resized(int height, int width) const {
  if (settings_.whole) return resized_whole(height, width);
  if (settings_.resize_width > 0) return {settings_.resize_height, settings_.resize_width};
  double factor = 1;
  if (settings_.resize_ratio > 0) factor = settings_.resize_ratio;
  if (settings_.short_size > 0)
    factor = static_cast<double>(whole_squares(settings_.short_size)) / std::min(height, width);
  return {std::max(nearest(height * factor), 1), std::max(nearest(width * factor), 1)};
}

FieldDataWriter::Size FieldDataWriter::resized_whole(int height, int width) const {
  Size size{height, width};
  if (settings_.resize_width > 0) {
    size = {settings_.resize_height, settings_.resize_width};
  } else if (settings_.short_size > 0) {
    const double factor = static_cast<double>(settings_.short_size) / std::min(height, width);
    size = {std::min(nearest(height * factor), settings_.long_size),
            std::min(nearest(width * factor), settings_.long_size)};
  }
  return {std::max(whole_squares(size.height), 32), std::max(whole_squares(size.width), 32)};
}

/// As large as the first image of its batch, if no setting says more.
FieldDataWriter::Size FieldDataWriter::result_of(std::uint64_t item) const {
  const BoxedImage& first = list_->images[leader_(item)];
  Size size = resized(first.height, first.width);
  if (settings_.whole) return size;
  const auto standing = [&](int shorter, int longer) {
    return size.height >= size.width ? Size{longer, shorter} : Size{shorter, longer};
  };
  if (settings_.crop_short > 0)
    size = standing(settings_.crop_short, settings_.crop_long);
  else if (settings_.short_size > 0)
    size = standing(whole_squares(settings_.short_size), whole_squares(settings_.long_size));
  if (settings_.crop_height > 0) size.height = settings_.crop_height;
  if (settings_.crop_width > 0) size.width = settings_.crop_width;
  return size;
}

/// MS-CNN: from the half octave of sizes that the object is nearest to to one that is drawn.
FieldDataWriter::Factors FieldDataWriter::in_octaves(const Box& object,
                                                     const std::array<double, 4>& numbers) const {
  const double width = object.x2 - object.x1, height = object.y2 - object.y1;
  const int steps =
      static_cast<int>(std::lround(2 * std::log2(settings_.largest_size / settings_.least_size))) + 1;
  int nearest_step = 0;
  double most = 0;
  for (int step = 0; step < steps; ++step) {
    const double area = settings_.least_size * settings_.least_size * std::exp2(step);
    const double alike = std::min(width * height, area) / std::max(width * height, area);
    if (alike > most) most = alike, nearest_step = step;
  }
  const double factor = std::exp2((static_cast<int>(numbers[0] * steps) - nearest_step) / 2.0);
  Factors factors{factor, factor};
  if (settings_.largest_aspect == 0 || numbers[1] >= 0.5 || !(width > 0 && height > 0)) return factors;
  constexpr double kStep = 0.05;
  const auto aspects = std::max(std::lround((settings_.largest_aspect - settings_.least_aspect) / kStep), 1L);
  const double aspect =
      std::floor(numbers[2] * static_cast<double>(aspects)) * kStep + settings_.least_aspect;
  const double by = aspect / (width / height);
  const double side = numbers[3] < 0.5 ? width * factor * by : height * factor / by;
  if (!(side >= settings_.least_size * 0.8 && side <= settings_.largest_size * 1.2)) return factors;
  (numbers[3] < 0.5 ? factors.x : factors.y) = numbers[3] < 0.5 ? factor * by : factor / by;
  return factors;
}

FieldDataWriter::Factors FieldDataWriter::factors(const Box* object, double wanted,
                                                  const std::array<double, 4>& numbers) const {
  if (wanted >= settings_.scale_probability || (settings_.largest_size > 0 && object == nullptr)) return {};
  if (settings_.octaves) return in_octaves(*object, numbers);
  double low = settings_.least_ratio, high = settings_.largest_ratio;
  if (settings_.largest_size > 0) {
    const double size = std::sqrt((object->x2 - object->x1 + 1) * (object->y2 - object->y1 + 1));
    low = settings_.least_size / size, high = settings_.largest_size / size;
  }
  const auto between = [](double least, double largest, double at) {
    return least * std::pow(largest / least, at);
  };
  const double factor = between(low, high, numbers[0]);
  const double aspect = settings_.largest_aspect > 0
                            ? between(settings_.least_aspect, settings_.largest_aspect, numbers[1])
                            : 1;
  return {factor * std::sqrt(aspect), factor / std::sqrt(aspect)};
}

FieldDataWriter::Change FieldDataWriter::plan(const Record& record, std::uint64_t item) const {
  // Always the same number of draws, so that no setting changes what another one's draws are.
  ItemDraws draws(key_, item);
  const BoxedImage& listed = list_->images[static_cast<std::size_t>(record.label)];
  Change change;
  change.boxes = listed.boxes;
  change.regions = listed.regions;
  change.distortion = draw_distortion(settings_.distortion, draws);
  change.mirrored = draws.next() < 0.5 && settings_.mirror;
  if (change.mirrored) change.mirror_boxes(record.width);
  change.first = change.second = resized(record.height, record.width);
  const int height = change.first.height, width = change.first.width;
  change.move(static_cast<double>(width) / record.width, static_cast<double>(height) / record.height, 0, 0);
  change.result = result_of(item);
  if (!settings_.pads && (height < change.result.height || width < change.result.width))
    bad_input("the image (", height, " x ", width, ") is smaller than the crop, ", change.result.height,
              " x ", change.result.width);

  const double which = draws.next(), at_x = draws.next(), at_y = draws.next(), wanted = draws.next();
  const std::array<double, 4> numbers{draws.next(), draws.next(), draws.next(), draws.next()};
  const Box* object = nullptr;
  const auto anywhere = [](int length, int cut, double at) {
    return cut > length ? length / 2.0 : std::floor(at * (length - cut + 1)) + cut / 2.0;
  };
  double x = anywhere(width, change.result.width, at_x), y = anywhere(height, change.result.height, at_y);
  if (!change.boxes.empty()) {
    object = &change.boxes[static_cast<std::size_t>(which * static_cast<double>(change.boxes.size()))].box;
    x = (object->x1 + object->x2) / 2, y = (object->y1 + object->y2) / 2;
  }
  const Factors by = factors(object, wanted, numbers);
  change.part = {0, 0, height, width};
  if (by.x > 1.5 || by.y > 1.5) {  // only what may be seen is enlarged
    const auto side = [](int length, double factor) {
      return std::clamp(nearest(1.2 * length / factor), 1, length);
    };
    PixelBox& part = change.part;
    part.height = side(height, by.y), part.width = side(width, by.x);
    part.top = std::clamp(nearest(y - part.height * 0.5), 0, height - part.height);
    part.left = std::clamp(nearest(x - part.width * 0.5), 0, width - part.width);
    x -= part.left, y -= part.top;
    change.move(1, 1, -part.left, -part.top);
  }
  change.second = {std::max(nearest(change.part.height * by.y), 1),
                   std::max(nearest(change.part.width * by.x), 1)};
  change.move(by.x, by.y, 0, 0);
  constexpr int kShifts = 20;  // around 0
  const int shift_x = draws.below(kShifts) - kShifts / 2, shift_y = draws.below(kShifts) - kShifts / 2;
  change.across = seen(change.second.width, change.result.width, x * by.x, shift_x);
  change.down = seen(change.second.height, change.result.height, y * by.y, shift_y);
  change.move(1, 1, change.across.to - change.across.from, change.down.to - change.down.from);
  for (ListedBox& box : change.boxes) {
    const Box& b = box.box;
    const double centre_x = (b.x1 + b.x2) / 2, centre_y = (b.y1 + b.y2) / 2;
    const bool outside =
        centre_x < 0 || centre_x >= change.result.width || centre_y < 0 || centre_y >= change.result.height;
    box.ignored = box.ignored || outside || b.x2 - b.x1 + 1 < settings_.least_width ||
                  b.y2 - b.y1 + 1 < settings_.least_height;
  }
  return change;
}

Image FieldDataWriter::pixels(const Record& record, const Change& change) const {
  Image image = record.image, other;
  const auto resize = [&](const Size& size) {
    if (size == Size{image.height, image.width}) return;
    resize_bilinear(image, size.height, size.width, other);
    std::swap(image, other);
  };
  distort(change.distortion, image);
  if (change.mirrored) mirror(image);
  resize(change.first);
  if (change.part != PixelBox{0, 0, image.height, image.width}) {
    Record whole;
    whole.image = std::move(image);
    whole.show_image();
    image = cut(whole, change.part);
  }
  resize(change.second);
  return image;
}

std::vector<Shape> FieldDataWriter::shapes(const Record&, std::uint64_t item) const {
  const Size size = result_of(item);
  std::vector<Shape> shapes{Shape{3, size.height, size.width}};
  for (const FieldMap& map : settings_.rules.maps) {
    const FieldGrid grid = grid_of(map, size.height, size.width);
    shapes.push_back(Shape{6, grid.rows, grid.columns});
  }
  if (settings_.whole) shapes.push_back(Shape{2});
  return shapes;
}

void FieldDataWriter::write(const Record& record, std::uint64_t item, const ItemPlace& place) const {
  const Change change = plan(record, item);
  const Image image = pixels(record, change);
  const auto labels = field_labels(settings_.rules, change.frame(), change.boxes, change.regions);
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    T* const to = static_cast<T*>(place.outputs[0]);
    const std::ptrdiff_t plane = std::ptrdiff_t{change.result.height} * change.result.width;
    std::fill(to, to + 3 * plane, T{0});
    for (int row = 0; row < change.down.count; ++row)
      for (int column = 0; column < change.across.count; ++column)
        for (int c = 0; c < 3; ++c) {
          const std::ptrdiff_t from =
              std::ptrdiff_t{row + change.down.from} * image.width + column + change.across.from;
          const std::ptrdiff_t at =
              std::ptrdiff_t{row + change.down.to} * change.result.width + column + change.across.to;
          const T mean =
              settings_.means.empty()
                  ? T{0}
                  : static_cast<T>(
                        settings_.means[settings_.means.size() == 1 ? 0 : static_cast<std::size_t>(c)]);
          to[place.layout == Layout::channels_last ? at * 3 + c : c * plane + at] =
              (static_cast<T>(image.pixels[static_cast<std::size_t>(from * 3 + c)]) - mean) *
              static_cast<T>(settings_.scale);
        }
    for (std::size_t m = 0; m < labels.size(); ++m)
      std::transform(labels[m].begin(), labels[m].end(), static_cast<T*>(place.outputs[m + 1]),
                     [](double value) { return static_cast<T>(value); });
    if (!settings_.whole) return;
    T* const sizes = static_cast<T*>(place.outputs[labels.size() + 1]);
    sizes[0] = static_cast<T>(change.result.height);
    sizes[1] = static_cast<T>(change.result.width);
  });
  if (!settings_.boxes) return;
  for (const ListedBox& listed : change.boxes) {
    const Box& box = listed.box;
    place.rows->insert(place.rows->end(), {static_cast<double>(place.index), box.x1, box.y1, box.x2, box.y2,
                                           static_cast<double>(listed.label), listed.ignored ? 1.0 : 0.0});
    if (settings_.difficult) place.rows->push_back(listed.difficult ? 1 : 0);
  }
}

}  // namespace banyan::data
