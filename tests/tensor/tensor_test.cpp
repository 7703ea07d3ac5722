#include "banyan/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include "banyan/base/error.hpp"
#include "banyan/device/device.hpp"
#include "banyan/tensor/values.hpp"

namespace banyan {
namespace {

TEST(Shape, CountsAxesAndElements) {
  const Shape shape{64, 3, 28, 27};
  EXPECT_EQ(shape.axes(), 4);
  EXPECT_EQ(shape.count(), 64 * 3 * 28 * 27);
  EXPECT_EQ(shape.count(2), 28 * 27);
  EXPECT_EQ(shape.count(1, 3), 3 * 28);
  EXPECT_EQ(shape.count(2, 2), 1);
  EXPECT_EQ(shape[-1], 27);
  EXPECT_EQ(shape.to_string(), "64 3 28 27 (145152)");
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ(Shape().to_string(), "(1)");
  EXPECT_EQ((Shape{5, 0, 2}).count(), 0);
}

TEST(Shape, AnAxisOutOfRangeIsAnError) {
  const Shape shape{2, 3};
  EXPECT_THROW(shape.dim(2), Error);
  EXPECT_THROW(shape.dim(-3), Error);
  EXPECT_THROW(shape.count(1, 3), Error);
  EXPECT_THROW(shape.count(2, 1), Error);
  EXPECT_THROW(Shape().dim(0), Error);
}

TEST(Shape, TooManyElementsAreAnError) {
  const Shape shape{std::int64_t{1} << 32, 2, std::int64_t{1} << 31};
  EXPECT_EQ(shape.count(0, 2), std::int64_t{1} << 33);
  EXPECT_THROW(shape.count(), Error);
  EXPECT_EQ(shape.to_string(), "4294967296 2 2147483648 (too many)");
}

TEST(DTypes, HaveSizesAndNames) {
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(size_of(DType::u8), 1u);
  EXPECT_STREQ(name_of(DType::bf16), "bf16");
}

class TensorTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(0);
};

TEST_F(TensorTest, IsAlignedAndAccounted) {
  {
    const Tensor tensor(*device_, {3, 5}, DType::f64);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64, 0u);
    EXPECT_EQ(device_->memory().in_use, 3u * 5 * 8);
    const Tensor large(*device_, {5000000}, DType::u8);  // takes the huge-page path
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.raw()) % 64, 0u);
  }
  EXPECT_EQ(device_->memory().in_use, 0u);
  EXPECT_EQ(device_->memory().peak, 3u * 5 * 8 + 5000000);
}

TEST_F(TensorTest, ResizeKeepsStorageThatIsLargeEnough) {
  Tensor tensor(*device_, {4, 6}, DType::f32);
  const void* before = tensor.raw();
  tensor.resize({2, 3});
  EXPECT_EQ(tensor.raw(), before);
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  tensor.resize({6, 4});
  EXPECT_EQ(tensor.raw(), before);
  tensor.resize({100, 100}, Layout::contiguous);
  EXPECT_EQ(tensor.count(), 10000);
  EXPECT_EQ(device_->memory().in_use, 40000u) << "the old block was released";
}

TEST_F(TensorTest, ResizeLeavesSharedStorageAlone) {
  Tensor tensor(*device_, {4}, DType::f32);
  tensor.data<float>()[0] = 7;
  const Tensor other = tensor;
  tensor.resize({2});
  tensor.data<float>()[0] = 1;
  EXPECT_FALSE(tensor.same_memory(other));
  EXPECT_EQ(other.data<float>()[0], 7);
  EXPECT_EQ(other.shape(), Shape{4});
}

TEST_F(TensorTest, ViewsShareMemory) {
  Tensor tensor(*device_, {2, 6}, DType::i32);
  for (int i = 0; i < 12; ++i) tensor.data<std::int32_t>()[i] = i;
  const Tensor view = tensor.reshaped({3, 4});
  EXPECT_TRUE(view.same_memory(tensor));
  const Tensor part = tensor.slice(5, {2, 2});
  EXPECT_EQ(part.data<std::int32_t>()[3], 8);
  EXPECT_EQ(part.slice(1, {3}).data<std::int32_t>()[0], 6) << "a slice of a slice counts from the slice";
  EXPECT_THROW(tensor.reshaped({5}), Error);
  EXPECT_THROW(tensor.slice(9, {4}), Error);
  EXPECT_THROW(part.slice(2, {3}), Error);
}

TEST_F(TensorTest, ContiguousInEffect) {
  const auto last = [&](const Shape& shape) {
    return Tensor(*device_, shape, DType::f32, Layout::channels_last);
  };
  EXPECT_FALSE(last({2, 3, 4, 5}).is_contiguous());
  EXPECT_TRUE(last({2, 1, 4, 5}).is_contiguous());
  EXPECT_TRUE(last({2, 3, 1, 1}).is_contiguous());
  EXPECT_TRUE(last({2, 3}).is_contiguous());
  EXPECT_THROW(last({2, 3, 4, 5}).reshaped({6, 20}), Error);
  EXPECT_EQ(last({2, 3, 1, 1}).reshaped({6}).layout(), Layout::contiguous);
}

TEST_F(TensorTest, ChannelView) {
  const ChannelView image = channel_view(Tensor(*device_, {2, 3, 4, 5}, DType::f32, Layout::channels_last));
  EXPECT_EQ(image.batch, 2);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.inner, 20);
  EXPECT_TRUE(image.channels_last);
  const ChannelView labels = channel_view(Tensor(*device_, {7}, DType::f32));
  EXPECT_EQ(labels.batch, 7);
  EXPECT_EQ(labels.channels, 1);
  EXPECT_EQ(labels.inner, 1);
}

TEST_F(TensorTest, TakesAsManyValuesAsItHas) {
  Context context(*device_);
  Tensor tensor(*device_, {2, 2}, DType::f64);
  set_values(context, {1, 2, 3, 4}, tensor);
  for (const std::vector<double>& wrong : {std::vector<double>{5, 6, 7}, {5, 6, 7, 8, 9}, {}})
    EXPECT_THROW(set_values(context, wrong, tensor), Error);
  EXPECT_EQ(values_of(context, tensor).values, (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(TensorTest, AnotherTypeIsAnError) {
  Tensor tensor(*device_, {2}, DType::f32);
  EXPECT_THROW(tensor.data<double>(), Error);
  EXPECT_THROW(Tensor().data<float>(), Error);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_FALSE(Tensor().same_memory(Tensor()));
}

}  // namespace
}  // namespace banyan
