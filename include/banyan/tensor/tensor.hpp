// Tensor: shape, runtime dtype and physical layout over a piece of one device's memory.
//
// A Tensor is a handle: copies share the storage. Constness is that of the handle's view: a const Tensor
// gives const pointers. Layout `channels_last` applies to tensors of 3 or more axes (N, C, spatial...): the
// logical shape stays N, C, H, W, but in memory the channel is the innermost axis. Where C == 1 or all
// spatial axes are 1 both layouts are the same bytes.
#pragma once

#include <cstddef>
#include <memory>

#include "banyan/device/storage.hpp"
#include "banyan/tensor/dtype.hpp"
#include "banyan/tensor/shape.hpp"

namespace banyan {

class Context;

enum class Layout : std::uint8_t { contiguous, channels_last };
const char* name_of(Layout layout);

class Tensor {
 public:
  Tensor() = default;  ///< undefined: no storage
  /// Uninitialized memory on `device`. Throws runtime failure when memory runs out.
  Tensor(Device& device, Shape shape, DType dtype, Layout layout = Layout::contiguous);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t count() const { return shape_.count(); }
  DType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }
  Device& device() const { return storage_->device(); }

  /// Changes the shape (and the layout); keeps the storage if it is large enough and not shared, otherwise
  /// allocates new storage. If the count changed, the contents are undefined.
  void resize(const Shape& shape, Layout layout);
  void resize(const Shape& shape) { resize(shape, layout_); }
  /// Does resize() to this shape keep the storage?
  bool has_room_for(const Shape& shape) const;

  /// The same memory with another shape of the same count; the memory order must be the logical order (see
  /// is_contiguous).
  Tensor reshaped(const Shape& shape) const;
  /// The elements from `offset` on as a tensor of this shape over the same memory.
  Tensor slice(std::int64_t offset, const Shape& shape, Layout layout = Layout::contiguous) const;
  /// `shape` elements of another type from byte `offset` on, over the same memory.
  Tensor bytes_as(std::int64_t offset, DType dtype, const Shape& shape, Layout layout) const;
  /// True when the memory order equals the logical order (also for channels_last where it makes no
  /// difference).
  bool is_contiguous() const;
  /// True when both share the same first byte.
  bool same_memory(const Tensor& other) const { return raw() == other.raw() && defined(); }

  void* raw() { return base_; }
  const void* raw() const { return base_; }
  /// Typed pointer; throws a runtime failure if the dtype differs.
  template <class T>
  T* data() {
    expect(DTypeOf<T>::value);
    return static_cast<T*>(base_);
  }
  template <class T>
  const T* data() const {
    expect(DTypeOf<T>::value);
    return static_cast<const T*>(base_);
  }

 private:
  void expect(DType dtype) const;

  std::shared_ptr<Storage> storage_;
  void* base_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::f32;
  Layout layout_ = Layout::contiguous;
};

/// The layout-relevant view of a tensor seen as N x C x inner (inner = product of the spatial axes).
struct ChannelView {
  std::int64_t batch = 0, channels = 0, inner = 0;
  bool channels_last = false;
};
/// Axis 0 is the batch, axis 1 the channel (1 channel if there is only one axis).
ChannelView channel_view(const Tensor& tensor);

/// Copies a host array into `to` (host order = logical order, converted to the tensor's layout) and waits.
template <class T>
void copy_from_host(Context& context, const T* from, Tensor& to);
/// Copies a tensor to a host array in logical order and waits.
template <class T>
void copy_to_host(Context& context, const Tensor& from, T* to);

}  // namespace banyan
