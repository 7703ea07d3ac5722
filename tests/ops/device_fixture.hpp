// One test body for every kind of device and for f32 and f64.
//
//   class Relu : public DeviceTest {};
//   TEST_P(Relu, KeepsPositiveValues) {
//     const Tensor x = make({2, 3, 4, 5}, random_values(120, 1), Layout::channels_last);
//     Tensor y = empty({2, 3, 4, 5}, Layout::channels_last);
//     ops::relu_forward(context(), x, 0, y);
//     expect_near(values(y), expected, 4 * epsilon());   // values() waits for the stream
//   }
//   BANYAN_ON_ALL_DEVICES(Relu);
//
// test_ops runs the bodies on CPU devices: inline with 1 and 2 threads, and asynchronous with random delays.
// gpu_tests, made of the same objects, runs them on gpu:0, or skips each one and says why. A body must not
// touch a tensor's memory itself, and tensors must live until the stream is done (values() waits).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/device/cuda_devices.hpp"
#include "banyan/ops/device_value.hpp"
#include "banyan/ops/random.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {

struct DeviceCase {
  const char* name;
  DeviceKind kind;
  int threads;
  bool asynchronous;
  DType dtype;
};

/// Whether this program is gpu_tests; each program defines it (ops/on_cpu_devices.cpp, gpu/on_gpus.cpp).
bool tests_of_gpus();

/// GoogleTest names cases by this.
inline void PrintTo(const DeviceCase& device, std::ostream* out) { *out << device.name; }

inline std::vector<DeviceCase> device_cases() {
  constexpr auto cpu = DeviceKind::cpu;
  constexpr auto cuda = DeviceKind::cuda;
  if (tests_of_gpus())
    return {{"cuda_f32", cuda, 1, false, DType::f32}, {"cuda_f64", cuda, 1, false, DType::f64}};
  std::vector<DeviceCase> cases = {{"cpu_f32", cpu, 1, false, DType::f32},
                                   {"cpu_f64", cpu, 1, false, DType::f64},
                                   {"cpu_asynchronous_f32", cpu, 1, true, DType::f32},
                                   {"cpu_asynchronous_f64", cpu, 1, true, DType::f64}};
#if !defined(__SANITIZE_THREAD__)  // ThreadSanitizer does not understand libgomp's barriers: false races
  cases.push_back({"cpu_2_threads_f32", cpu, 2, false, DType::f32});
  cases.push_back({"cpu_2_threads_f64", cpu, 2, false, DType::f64});
#endif
  return cases;
}

/// `count` values, uniform in [low, high), determined by the seed.
inline std::vector<double> random_values(std::int64_t count, unsigned seed, double low = -1,
                                         double high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> draw(low, high);
  std::vector<double> values(count);
  for (double& value : values) value = draw(engine);
  return values;
}

/// Each |found - expected| <= tolerance * max(1, |expected|).
inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                        double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  int shown = 0;
  for (std::size_t i = 0; i < found.size() && shown < 5; ++i) {
    if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
    if (std::abs(found[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i]))) continue;
    ++shown;
    ADD_FAILURE() << "element " << i << " of " << found.size() << ": found " << found[i] << ", expected "
                  << expected[i] << ", difference " << found[i] - expected[i] << ", tolerance " << tolerance;
  }
}

inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::channels_last};

class DeviceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    const DeviceCase& wanted = GetParam();
    if (wanted.kind == DeviceKind::cuda) {
      std::string why;
      if (cuda_device_count(&why) == 0) GTEST_SKIP() << "no CUDA device: " << why;
      device_ = make_cuda_device(0, 0);
    } else {
      CpuDeviceOptions options;
      options.threads = wanted.threads;
      options.asynchronous = wanted.asynchronous;
      options.max_delay_us = wanted.asynchronous ? 50 : 0;
      device_ = make_cpu_device(0, options);
    }
    device_->make_current();
    context_ = std::make_unique<Context>(*device_);
  }

  Device& device() { return *device_; }
  Context& context() { return *context_; }
  DType dtype() const { return GetParam().dtype; }
  bool on_cuda() const { return GetParam().kind == DeviceKind::cuda; }
  /// Distance from 1 to the next number of the dtype under test.
  double epsilon() const {
    return dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                 : std::numeric_limits<float>::epsilon();
  }

  /// `key` for operators that read its iteration from device memory; valid until the next call.
  ops::PassKey on_device(const ops::RandomKey& key) {
    if (!draw_) draw_ = std::make_unique<ops::DeviceValue<std::uint64_t>>(device());
    draw_->write(context(), key.iteration);
    return {key.seed, key.stream, draw_->get()};
  }

  /// Uninitialized, in the dtype under test.
  Tensor empty(const Shape& shape, Layout layout = Layout::contiguous) {
    return {device(), shape, dtype(), layout};
  }
  /// In the dtype under test; `values` in logical order.
  Tensor make(const Shape& shape, const std::vector<double>& values, Layout layout = Layout::contiguous) {
    return make_as(dtype(), shape, values, layout);
  }
  Tensor make_as(DType type, const Shape& shape, const std::vector<double>& values,
                 Layout layout = Layout::contiguous) {
    Tensor tensor(device(), shape, type, layout);
    EXPECT_EQ(tensor.count(), static_cast<std::int64_t>(values.size()));
    switch (type) {
      case DType::f32:
        fill_from<float>(tensor, values);
        break;
      case DType::f64:
        fill_from<double>(tensor, values);
        break;
      case DType::i32:
        fill_from<std::int32_t>(tensor, values);
        break;
      case DType::u8:
        fill_from<std::uint8_t>(tensor, values);
        break;
      default:
        ADD_FAILURE() << "no test data of type " << name_of(type);
    }
    return tensor;
  }
  /// Waits, then returns the elements in logical order, whatever the dtype.
  std::vector<double> values(const Tensor& tensor) {
    switch (tensor.dtype()) {
      case DType::f32:
        return read<float>(tensor);
      case DType::f64:
        return read<double>(tensor);
      case DType::i32:
        return read<std::int32_t>(tensor);
      case DType::u8:
        return read<std::uint8_t>(tensor);
      default:
        ADD_FAILURE() << "no values of type " << name_of(tensor.dtype());
        return {};
    }
  }
  /// `values` rounded to the dtype under test.
  std::vector<double> rounded(std::vector<double> values) const {
    if (dtype() == DType::f32)
      for (double& value : values) value = static_cast<float>(value);
    return values;
  }

 private:
  template <class T>
  void fill_from(Tensor& tensor, const std::vector<double>& values) {
    const std::vector<T> converted(values.begin(), values.end());
    copy_from_host(context(), converted.data(), tensor);
  }
  template <class T>
  std::vector<double> read(const Tensor& tensor) {
    std::vector<T> host(tensor.count());
    copy_to_host(context(), tensor, host.data());
    return {host.begin(), host.end()};
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<ops::DeviceValue<std::uint64_t>> draw_;
  std::unique_ptr<Context> context_;
};

#define BANYAN_ON_ALL_DEVICES(suite)                                          \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, testing::ValuesIn(device_cases()), \
                           [](const auto& info) { return std::string(info.param.name); })

}  // namespace banyan
