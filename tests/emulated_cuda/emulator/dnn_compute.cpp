#include "dnn_compute.hpp"

#include <vector>

#include "blas_product.hpp"
#include "dnn_unfold.hpp"

namespace emulated::dnn {

namespace {

/// Memory that a stream's thread keeps between calls.
template <class T>
struct Scratch {
  std::vector<T> columns, x, y;
  static Scratch& mine() {
    static thread_local Scratch scratch;
    return scratch;
  }
  static T* of(std::vector<T>& buffer, std::int64_t elements) {
    if (buffer.size() < static_cast<std::size_t>(elements)) buffer.resize(static_cast<std::size_t>(elements));
    return buffer.data();
  }
};

/// Each input is needed for one output only, in the same place: the unfolded image is the image.
bool is_unfolded(const Problem& p) {
  for (const Axis& axis : p.axes)
    if (axis.kernel != 1 || axis.pad != 0 || axis.stride != 1) return false;
  return true;
}

/// values = factor * values; zeros for 0, whatever they were.
template <class T>
void scale(T factor, T* values, std::int64_t count) {
  if (factor == T(0)) {
    std::fill_n(values, count, T(0));
  } else if (factor != T(1)) {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
  }
}

/// Calls use(element of the tensor, element of its packed copy) for one image (channels first).
template <class Use>
void for_each_element(const TensorDescriptor& tensor, Use&& use) {
  const auto &n = tensor.dims, &s = tensor.strides;
  std::int64_t packed = 0;
  for (std::int64_t c = 0; c < n[1]; ++c)
    for (std::int64_t d = 0; d < n[2]; ++d)
      for (std::int64_t h = 0; h < n[3]; ++h) {
        const std::int64_t row = c * s[1] + d * s[2] + h * s[3];
        for (std::int64_t w = 0; w < n[4]; ++w) use(row + w * s[4], packed++);
      }
}

/// One image of a tensor with the channels first: its own memory if packed that way, otherwise a copy.
template <class T>
class Image {
 public:
  Image(const TensorDescriptor& tensor, bool packed, T* memory, std::int64_t index, std::vector<T>& buffer)
      : tensor_(tensor), memory_(memory + index * tensor.strides[0]), data_(memory_), packed_(packed) {
    if (!packed)
      data_ = Scratch<T>::of(buffer, tensor.dims[1] * tensor.dims[2] * tensor.dims[3] * tensor.dims[4]);
  }
  T* data() { return data_; }
  void load() {
    if (!packed_)
      for_each_element(tensor_, [&](std::int64_t at, std::int64_t packed) { data_[packed] = memory_[at]; });
  }
  void store() {
    if (!packed_)
      for_each_element(tensor_, [&](std::int64_t at, std::int64_t packed) { memory_[at] = data_[packed]; });
  }

 private:
  const TensorDescriptor& tensor_;
  T *memory_, *data_;
  bool packed_;
};

/// One image with the channels first; `keep` is beta for what the call has not written yet.
template <class T>
void compute_image(Direction direction, const Problem& p, T alpha, T keep, T* x, T* w, T* y) {
  const std::int64_t channels = p.in_per_group(), outputs = p.out_per_group(), positions = p.positions(),
                     depth = p.depth();
  const bool as_is = is_unfolded(p);
  T* const scratch = as_is ? nullptr : Scratch<T>::of(Scratch<T>::mine().columns, depth * positions);
  for (std::int64_t g = 0; g < p.groups; ++g) {
    T *const group_x = x + g * channels * p.inputs(), *const group_w = w + g * outputs * depth,
             *const group_y = y + g * outputs * positions;
    T* const columns = as_is ? group_x : scratch;
    if (direction != Direction::backward_data && !as_is) unfold(p, channels, group_x, columns);
    switch (direction) {
      case Direction::forward:
        multiply({CblasRowMajor, CblasNoTrans, CblasNoTrans, outputs, positions, depth, depth, positions,
                  positions},
                 alpha, group_w, columns, keep, group_y);
        break;
      case Direction::backward_data:
        multiply(
            {CblasRowMajor, CblasTrans, CblasNoTrans, depth, positions, outputs, depth, positions, positions},
            alpha, group_w, group_y, as_is ? keep : T(0), columns);
        if (as_is) break;
        scale(keep, group_x, channels * p.inputs());
        fold(p, channels, columns, group_x);
        break;
      case Direction::backward_filter:
        multiply(
            {CblasRowMajor, CblasNoTrans, CblasTrans, outputs, depth, positions, positions, positions, depth},
            alpha, group_y, columns, keep, group_w);
        break;
    }
  }
}

/// One image with the channels last; x, w and y alike.
template <class T>
void compute_image_channels_last(Direction direction, const Problem& p, T alpha, T keep, T* x, T* w, T* y) {
  const std::int64_t channels = p.in_per_group(), outputs = p.out_per_group(), positions = p.positions(),
                     depth = p.depth();
  const bool as_is = is_unfolded(p);
  T* const scratch = as_is ? nullptr : Scratch<T>::of(Scratch<T>::mine().columns, depth * positions);
  const std::int64_t row = as_is ? p.in_channels : depth;  // of the unfolded image
  if (direction == Direction::backward_data && !as_is) scale(keep, x, p.in_channels * p.inputs());
  for (std::int64_t g = 0; g < p.groups; ++g) {
    T *const group_x = x + g * channels, *const group_w = w + g * outputs * depth,
             *const group_y = y + g * outputs;
    T* const columns = as_is ? group_x : scratch;
    if (direction != Direction::backward_data && !as_is) unfold_channels_last(p, group_x, columns);
    switch (direction) {
      case Direction::forward:
        multiply(
            {CblasRowMajor, CblasNoTrans, CblasTrans, positions, outputs, depth, row, depth, p.out_channels},
            alpha, columns, group_w, keep, group_y);
        break;
      case Direction::backward_data:
        multiply({CblasRowMajor, CblasNoTrans, CblasNoTrans, positions, depth, outputs, p.out_channels, depth,
                  row},
                 alpha, group_y, group_w, as_is ? keep : T(0), columns);
        if (!as_is) fold_channels_last(p, columns, group_x);
        break;
      case Direction::backward_filter:
        multiply(
            {CblasRowMajor, CblasTrans, CblasNoTrans, outputs, depth, positions, p.out_channels, row, depth},
            alpha, group_y, columns, keep, group_w);
        break;
    }
  }
}

}  // namespace

template <class T>
void compute(Direction direction, const Problem& p, T alpha, T beta, const Operands<T>& operands) {
  Scratch<T>& scratch = Scratch<T>::mine();
  for (std::int64_t n = 0; n < p.batch; ++n) {
    const T keep = direction == Direction::backward_filter && n > 0 ? T(1) : beta;
    if (p.channels_last) {
      compute_image_channels_last(direction, p, alpha, keep, operands.x + n * p.in_channels * p.inputs(),
                                  operands.w, operands.y + n * p.out_channels * p.positions());
      continue;
    }
    Image<T> x(p.x, p.x_packing.chw, operands.x, n, scratch.x),
        y(p.y, p.y_packing.chw, operands.y, n, scratch.y);
    if (direction != Direction::backward_data || keep != T(0)) x.load();
    if (direction != Direction::forward || keep != T(0)) y.load();
    compute_image(direction, p, alpha, keep, x.data(), operands.w, y.data());
    if (direction == Direction::backward_data) x.store();
    if (direction == Direction::forward) y.store();
  }
}
template void compute(Direction, const Problem&, float, float, const Operands<float>&);
template void compute(Direction, const Problem&, double, double, const Operands<double>&);

}  // namespace emulated::dnn
