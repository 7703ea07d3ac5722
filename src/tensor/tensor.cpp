#include "banyan/tensor/tensor.hpp"

namespace banyan {

const char* name_of(Layout layout) { return layout == Layout::contiguous ? "contiguous" : "channels_last"; }

Tensor::Tensor(Device& device, Shape shape, DType dtype, Layout layout)
    : shape_(std::move(shape)), dtype_(dtype), layout_(layout) {
  storage_ = std::make_shared<Storage>(device, bytes());
  base_ = storage_->data();
}

bool Tensor::has_room_for(const Shape& shape) const {
  if (!defined() || storage_.use_count() > 1) return false;
  const std::size_t needed = static_cast<std::size_t>(shape.count()) * size_of(dtype_);
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(base_) - static_cast<const char*>(storage_->data()));
  return offset + needed <= storage_->bytes();
}

void Tensor::resize(const Shape& shape, Layout layout) {
  if (!defined()) runtime_failure("an undefined tensor cannot be resized to ", shape.to_string());
  if (shape == shape_ && layout == layout_) return;
  if (!has_room_for(shape)) {
    const std::size_t needed = static_cast<std::size_t>(shape.count()) * size_of(dtype_);
    Device& device = storage_->device();
    // The old block is freed first: a growing tensor must not need room for both. If memory runs out, the
    // tensor is left undefined.
    storage_.reset();
    base_ = nullptr;
    storage_ = std::make_shared<Storage>(device, needed);
    base_ = storage_->data();
  }
  shape_ = shape;
  layout_ = layout;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.count() != count())
    runtime_failure("a tensor of shape ", shape_.to_string(), " cannot be seen as ", shape.to_string());
  if (!is_contiguous())
    runtime_failure("a channels_last tensor of shape ", shape_.to_string(), " cannot be seen as ",
                    shape.to_string());
  Tensor view = *this;
  view.shape_ = shape;
  view.layout_ = Layout::contiguous;
  return view;
}

Tensor Tensor::slice(std::int64_t offset, const Shape& shape, Layout layout) const {
  if (offset < 0 || offset + shape.count() > count())
    runtime_failure("elements [", offset, ", ", offset + shape.count(), ") are not in a tensor of ", count());
  Tensor view = *this;
  if (defined()) view.base_ = static_cast<char*>(base_) + static_cast<std::size_t>(offset) * size_of(dtype_);
  view.shape_ = shape;
  view.layout_ = layout;
  return view;
}

Tensor Tensor::bytes_as(std::int64_t offset, DType dtype, const Shape& shape, Layout layout) const {
  const auto needed = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  if (offset < 0 || static_cast<std::size_t>(offset) + needed > bytes())
    runtime_failure("bytes ", offset, " and ", needed, " more are not in a tensor of ", bytes(), " bytes");
  Tensor view = *this;
  if (defined()) view.base_ = static_cast<char*>(base_) + offset;
  view.shape_ = shape;
  view.dtype_ = dtype;
  view.layout_ = layout;
  return view;
}

bool Tensor::is_contiguous() const {
  if (layout_ == Layout::contiguous || shape_.axes() < 3) return true;
  return shape_.dim(1) == 1 || shape_.count(2) == 1 || count() == 0;
}

void Tensor::expect(DType dtype) const {
  if (!defined()) runtime_failure("an undefined tensor has no ", name_of(dtype), " data");
  if (dtype != dtype_)
    runtime_failure("expected a tensor of ", name_of(dtype), ", found one of ", name_of(dtype_));
}

ChannelView channel_view(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  ChannelView view;
  view.batch = shape.axes() > 0 ? shape.dim(0) : 1;
  view.channels = shape.axes() > 1 ? shape.dim(1) : 1;
  view.inner = shape.axes() > 2 ? shape.count(2) : 1;
  view.channels_last = tensor.layout() == Layout::channels_last && shape.axes() > 2;
  return view;
}

}  // namespace banyan
