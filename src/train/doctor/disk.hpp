// The disk that snapshots go to.
#pragma once

#include <cstdint>
#include <string>

#include "diagnosis.hpp"

namespace banyan::doctor {

struct DiskState {
  std::string folder;
  std::uint64_t free = 0, size = 0;  ///< bytes of the file system, free ones for this user
  double write = 0, read = 0;        ///< bytes per second, from and to the disk itself; 0: not measured
};
/// Writes, syncs and reads a file of `bytes` in the folder (which must exist), without the page cache as far
/// as the file system lets programs do without; removes it. Throws Error.
DiskState measure_disk(const std::string& folder, std::uint64_t bytes);

void judge_disk(const DiskState& disk, Findings& findings);

/// The folder, or the nearest one above it that exists.
std::string existing_folder(const std::string& folder);

}  // namespace banyan::doctor
