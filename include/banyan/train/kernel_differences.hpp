// Kernels chosen by asking a library: do all devices of a run, of all its processes, and a run and its
// continuation, use the same ones?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/ops/kernel_choices.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

using ops::KernelChoices;

/// `first` and `second` name the two sides. A sentence if they do the same work with different kernels: how
/// many, and the first of them. Work that only one side has (another share of the batch) does not count.
std::optional<std::string> kernel_difference(const std::string& first, const KernelChoices& of_first,
                                             const std::string& second, const KernelChoices& of_second);

struct DeviceKernels {
  std::string device;  ///< its name, for messages
  std::string model;   ///< with the same kernels, devices of one model give the same bits
  KernelChoices kernels;
};

/// The choices of many devices, without comparing each with each: of those that chose the same, one is kept.
class KernelComparison {
 public:
  /// A runtime failure if the device does the same work as an earlier one of its model with another kernel.
  /// A sentence if the first device of all, of another model, does: they are the user's choice.
  std::optional<std::string> add(const DeviceKernels& device);
  const std::vector<DeviceKernels>& kept() const { return kept_; }

 private:
  std::vector<DeviceKernels> kept_;
};

/// For another process.
std::string pack_kernels(const std::vector<DeviceKernels>& devices);
/// Throws if that is not what pack_kernels() gave.
std::vector<DeviceKernels> unpack_kernels(const std::string& packed);

void save_kernels(const KernelChoices& choices, caffe::BanyanState& state);
KernelChoices saved_kernels(const caffe::BanyanState& state);

}  // namespace banyan
