// GPUs: driver and libraries, health, other users, links.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/device/cuda_devices.hpp"
#include "banyan/parallel/gpu_state.hpp"
#include "banyan/train/train.hpp"
#include "diagnosis.hpp"
#include "train/commands/topology_report.hpp"

namespace banyan::doctor {

/// Do driver, CUDA and cuDNN fit?
void judge_versions(const CudaVersions& versions, const std::string& driver, Findings& findings);
/// `gpu`: what CUDA says; `state`: NVML.
void judge_gpu(const std::string& topic, const CudaGpu& gpu, const CudaVersions& versions,
               const std::optional<parallel::GpuState>& state, Findings& findings);
/// Each link between two GPUs, as training will use it.
void judge_links(const TopologyReport& report, Findings& findings);

/// All of it for the GPUs of these devices. True: a link does not answer (Diagnosis::stalled).
bool examine_gpus(const std::vector<DeviceChoice>& devices, const std::string& tree, Findings& findings);

}  // namespace banyan::doctor
