#include "banyan/layers/filler.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "banyan/base/contains.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/ops/random.hpp"
#include "layers/random_group.hpp"

namespace banyan {
namespace {

/// The name of bilinear before BVLC took it over.
constexpr const char* kFirstBilinear = "bilinear_upsampling";

const std::vector<std::string>& filler_types() {
  static const std::vector<std::string> types{"constant",    "uniform", "gaussian",   "positive_unitball",
                                              "xavier",      "msra",    "bilinear",   "gaussian_unitball",
                                              "diagonal",    "file",    "borderMask", "flowBorderMask",
                                              kFirstBilinear};
  return types;
}

bool is_bilinear(const std::string& type) { return type == "bilinear" || type == kFirstBilinear; }

/// Four random words for elements 4 block .. 4 block + 3. `purpose` separates the draws of one parameter.
struct Draws {
  std::uint64_t key;
  std::uint64_t high;
  Draws(const FillerIdentity& identity, int purpose)
      : key(ops::RandomKey{identity.seed, ops::stream_of(identity.layer.c_str()), 0}.key()),
        high((static_cast<std::uint64_t>(identity.slot) << 8) | static_cast<std::uint64_t>(purpose)) {}
  ops::Philox4 block(std::int64_t index) const {
    return ops::philox(key, high, static_cast<std::uint64_t>(index));
  }
};
enum Purpose { kValues = 0xF0, kSparse = 0xF1 };

/// values[e] = shift + scale * (number e of the stream).
template <class T, class Numbers>
void fill_random(const Draws& draws, std::int64_t count, int threads, double shift, double scale,
                 Numbers numbers, T* values) {
  using detail::kGroupNumbers;
  const std::int64_t groups = (count + kGroupNumbers - 1) / kGroupNumbers;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && groups > 64)
  for (std::int64_t group = 0; group < groups; ++group) {
    detail::RandomWords words;
    detail::RandomNumbers drawn;
    detail::draw_words(draws.key, draws.high, group, words);
    numbers(words, drawn);
    T in_order[kGroupNumbers];
#pragma omp simd
    for (int b = 0; b < detail::kGroupBlocks; ++b)
      for (int w = 0; w < 4; ++w) in_order[4 * b + w] = static_cast<T>(shift + scale * drawn.number[w][b]);
    const std::int64_t first = group * kGroupNumbers;
    std::copy_n(in_order, std::min<std::int64_t>(kGroupNumbers, count - first), values + first);
  }
}

template <class T>
void drop_sparse(const Draws& draws, std::int64_t count, double probability, T* values) {
  for (std::int64_t block = 0; 4 * block < count; ++block) {
    const ops::Philox4 words = draws.block(block);
    for (std::int64_t e = 4 * block; e < std::min(count, 4 * block + 4); ++e)
      if (detail::open_uniform(words.v[e - 4 * block]) >= probability) values[e] = 0;
  }
}

template <class T>
void normalize_rows(const Shape& shape, T* values) {
  const std::int64_t rows = shape.axes() > 0 ? shape.dim(0) : 1;
  const std::int64_t length = rows > 0 ? shape.count() / rows : 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i) sum += static_cast<double>(values[row * length + i]);
    for (std::int64_t i = 0; i < length; ++i)
      values[row * length + i] = static_cast<T>(static_cast<double>(values[row * length + i]) / sum);
  }
}

/// To length 1 (caffe-windows).
template <class T>
void shorten_rows(const Shape& shape, T* values) {
  const std::int64_t rows = shape.axes() > 0 ? shape.dim(0) : 1;
  const std::int64_t length = rows > 0 ? shape.count() / rows : 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    T* const at = values + row * length;
    double squares = 1e-12;
    for (std::int64_t i = 0; i < length; ++i)
      squares += static_cast<double>(at[i]) * static_cast<double>(at[i]);
    for (std::int64_t i = 0; i < length; ++i)
      at[i] = static_cast<T>(static_cast<double>(at[i]) / std::sqrt(squares));
  }
}

/// Weight by distance from the centre of the upsampling kernel, the same in both directions.
template <class T>
void fill_bilinear(const Shape& shape, T* values) {
  const std::int64_t k = shape.dim(3);
  const double f = std::ceil(static_cast<double>(k) / 2), c = static_cast<double>(k - 1) / (2 * f);
  const auto weight = [&](std::int64_t x) { return 1 - std::abs(static_cast<double>(x) / f - c); };
  for (std::int64_t i = 0; i < shape.count(); ++i)
    values[i] = static_cast<T>(weight(i % k) * weight(i / k % k));
}

template <class T>
void fill_diagonal(const caffe::FillerParameter& filler, const Shape& shape, T* values) {
  std::fill_n(values, shape.count(), T(0));
  for (int i = 0; i < filler.diag_val_size(); ++i)
    values[i * (shape.dim(-1) + 1)] = static_cast<T>(filler.diag_val(i));
}

/// 0 in a frame around each plane, 1 inside.
template <class T>
void fill_border_mask(const caffe::FillerParameter& filler, const Shape& shape, T* values) {
  const std::int64_t height = shape.dim(2), width = shape.dim(3);
  const auto shorter = static_cast<float>(std::min(height, width));
  const auto border = static_cast<std::int64_t>(std::round(std::min(filler.border_ratio(), 1.0f) * shorter));
  const auto inside = [&](std::int64_t at, std::int64_t length) {
    return at >= border && at < length - border;
  };
  for (std::int64_t i = 0; i < shape.count(); ++i)
    values[i] = static_cast<T>(inside(i / width % height, height) && inside(i % width, width) ? 1 : 0);
}

/// Where the next pixel to the right (channel 0) or below (channel 1) is there.
template <class T>
void fill_flow_border_mask(const Shape& shape, T* values) {
  const std::int64_t height = shape.dim(2), width = shape.dim(3);
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    const bool right = i / (height * width) % 2 == 0;
    const bool last = right ? i % width == width - 1 : i / width % height == height - 1;
    values[i] = static_cast<T>(last ? 0 : 1);
  }
}

constexpr std::size_t kLargestFile = std::size_t{1} << 30;

template <class T>
void fill_from_file(const caffe::FillerParameter& filler, const Shape& shape, T* values) {
  std::istringstream numbers(io::read_file(filler.file(), kLargestFile));
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    double number = 0;
    if (!(numbers >> number))
      bad_input("filler type \"file\": ", quoted(filler.file()), " holds ", i, " numbers",
                numbers.eof() ? "" : " and then something else", "; expected ", shape.count(),
                " for the shape ", shape.to_string());
    values[i] = static_cast<T>(number);
  }
}

/// n of xavier and msra.
double fan(const caffe::FillerParameter& filler, const Shape& shape) {
  const auto count = static_cast<double>(shape.count());
  const double in = shape.axes() > 0 ? count / static_cast<double>(shape.dim(0)) : count;
  const double out = shape.axes() > 1 ? count / static_cast<double>(shape.dim(1)) : count;
  if (filler.variance_norm() == caffe::FillerParameter::FAN_OUT) return out;
  if (filler.variance_norm() == caffe::FillerParameter::AVERAGE) return (in + out) / 2;
  return in;
}

}  // namespace

bool draws_values(const caffe::FillerParameter& filler) {
  static const std::vector<std::string> alike{"constant", "diagonal", "file", "borderMask", "flowBorderMask"};
  return !contains(alike, filler.type()) && !is_bilinear(filler.type());
}

void check_filler(const caffe::FillerParameter& filler, const Shape& shape) {
  const std::string& type = filler.type();
  const std::vector<std::string>& types = filler_types();
  if (type == "gabor")
    bad_input("filler type ", quoted(type),
              " is a branch's and not supported; give such weights by --weights; known are ",
              join(types, ", "));
  if (!contains(types, type))
    bad_input("unknown filler type ", quoted(type), did_you_mean(type, types), "; known are ",
              join(types, ", "));
  if (filler.sparse() != -1 && type != "gaussian")
    bad_input("filler type ", quoted(type), " cannot be sparse; `sparse` belongs to gaussian");
  if (is_bilinear(type) && (shape.axes() != 4 || shape.dim(2) != shape.dim(3)))
    bad_input("filler type ", quoted(type), " needs 4 axes with a square kernel, found shape ",
              shape.to_string());
  if ((type == "borderMask" || type == "flowBorderMask") && shape.axes() != 4)
    bad_input("filler type ", quoted(type), " needs 4 axes, found shape ", shape.to_string());
  if (type == "flowBorderMask" && shape.dim(1) != 2)
    bad_input("filler type \"flowBorderMask\" needs 2 channels, found shape ", shape.to_string());
  if (type == "borderMask" && !(filler.has_border_ratio() && filler.border_ratio() >= 0))
    bad_input("filler type \"borderMask\" needs a border_ratio that is not negative");
  if (type != "borderMask" && filler.has_border_ratio())
    bad_input("filler type ", quoted(type), " has no border_ratio; it belongs to borderMask");
  if (type == "file" && filler.file().empty()) bad_input("filler type \"file\" needs the name of a file");
  if (type != "file" && filler.has_file())
    bad_input("filler type ", quoted(type), " has no file; it belongs to file");
  if (type == "diagonal") {
    const std::int64_t side = shape.axes() > 0 ? shape.dim(-1) : 0;
    if (filler.diag_val_size() != side || shape.count() != side * side)
      bad_input("filler type \"diagonal\" needs a square matrix and a diag_val for each row, found shape ",
                shape.to_string(), " and ", filler.diag_val_size(), " numbers");
  } else if (filler.diag_val_size() > 0) {
    bad_input("filler type ", quoted(type), " has no diag_val; it belongs to diagonal");
  }
}

template <class T>
void fill_values(const caffe::FillerParameter& filler, const Shape& shape, const FillerIdentity& identity,
                 int threads, T* values) {
  check_filler(filler, shape);
  const std::int64_t count = shape.count();
  if (count == 0) return;
  const std::string& type = filler.type();
  const Draws draws(identity, kValues);
  if (type == "constant") {
    std::fill(values, values + count, static_cast<T>(filler.value()));
  } else if (type == "uniform") {
    fill_random(draws, count, threads, filler.min(), static_cast<double>(filler.max()) - filler.min(),
                detail::uniform_group, values);
  } else if (type == "gaussian") {
    fill_random(draws, count, threads, filler.mean(), filler.std(), detail::normal_group, values);
    if (filler.sparse() >= 0)
      drop_sparse(
          Draws(identity, kSparse), count,
          static_cast<double>(filler.sparse()) / static_cast<double>(shape.axes() > 0 ? shape.dim(0) : 1),
          values);
  } else if (type == "diagonal") {
    fill_diagonal(filler, shape, values);
  } else if (type == "file") {
    fill_from_file(filler, shape, values);
  } else if (type == "borderMask") {
    fill_border_mask(filler, shape, values);
  } else if (type == "flowBorderMask") {
    fill_flow_border_mask(shape, values);
  } else if (type == "positive_unitball") {
    fill_random(draws, count, threads, 0, 1, detail::uniform_group, values);
    normalize_rows(shape, values);
  } else if (type == "gaussian_unitball") {
    fill_random(draws, count, threads, 0, 1, detail::normal_group, values);
    shorten_rows(shape, values);
  } else if (type == "xavier") {
    const double a = std::sqrt(3 / fan(filler, shape));
    fill_random(draws, count, threads, -a, 2 * a, detail::uniform_group, values);
  } else if (type == "msra") {
    const double gain = 2 / (1 + static_cast<double>(filler.alpha()) * filler.alpha());
    fill_random(draws, count, threads, 0, std::sqrt(gain / fan(filler, shape)), detail::normal_group, values);
  } else {
    fill_bilinear(shape, values);
  }
}

template void fill_values<float>(const caffe::FillerParameter&, const Shape&, const FillerIdentity&, int,
                                 float*);
template void fill_values<double>(const caffe::FillerParameter&, const Shape&, const FillerIdentity&, int,
                                  double*);

}  // namespace banyan
