// Kernels chosen by asking a library: do all devices of a run, and a run and its continuation, use the same
// ones?
#pragma once

#include <optional>
#include <string>

#include "banyan/ops/kernel_choices.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

using ops::KernelChoices;

/// `first` and `second` name the two sides. A sentence if they do the same work with different kernels: how
/// many, and the first of them. Work that only one side has (another share of the batch) does not count.
std::optional<std::string> kernel_difference(const std::string& first, const KernelChoices& of_first,
                                             const std::string& second, const KernelChoices& of_second);

void save_kernels(const KernelChoices& choices, caffe::BanyanState& state);
KernelChoices saved_kernels(const caffe::BanyanState& state);

}  // namespace banyan
