// Do data sent over a link arrive intact, and how fast?
#pragma once

#include <cstdint>
#include <string>

#include "banyan/parallel/link_access.hpp"

namespace banyan::parallel {

enum class LinkVerdict : std::uint8_t { whole, corrupt, stalled };
const char* name_of(LinkVerdict verdict);

struct LinkCheck {
  LinkVerdict verdict = LinkVerdict::whole;
  std::string what;  ///< what is wrong
};

/// What most often helps when peer-to-peer copies fail.
inline constexpr const char* kLinkHint = "check the IOMMU and ACS settings of BIOS and kernel";

/// Sends a pattern from `owner` to `reader` and compares every byte, copied and, for in_place, also read by
/// an operator of the reader. A transfer that is not done after `limit_seconds` counts as stalled; its memory
/// is then never released, because the device may still write to it.
LinkCheck verify_link(Device& owner, Device& reader, Access access, std::size_t bytes,
                      double limit_seconds = 10);
/// With 1 MiB in place; where data may go through buffers of the host, with more than those hold.
inline LinkCheck verify_link(Device& owner, Device& reader, Access access) {
  return verify_link(owner, reader, access, std::size_t{access == Access::in_place ? 1U : 3U} << 20);
}

struct LinkSpeed {
  double bytes_per_second = 0;
  double latency_seconds = 0;  ///< of a 4-byte copy, from its launch until the host knows that it is done
};
/// Copies from `owner` to `reader`; medians of `repeats`.
LinkSpeed measure_link(Device& owner, Device& reader, Access access,
                       std::size_t bytes = std::size_t{32} << 20, int repeats = 7);

}  // namespace banyan::parallel
