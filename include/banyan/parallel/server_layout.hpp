// What parameter servers and their workers know alike: the pieces in which differences and parameters travel,
// and which server holds each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "banyan/tensor/dtype.hpp"

namespace banyan::parallel {

struct ServerLayout {
  DType type = DType::f32;
  std::vector<std::int64_t> pieces;  ///< values in each, in the order of the flat parameters
  std::vector<int> holders = {};     ///< the process that updates each; empty: process 0 all of them
  std::size_t rest_bytes = 0;        ///< parameters that are not learned, running statistics included
  std::size_t statistics_bytes = 0;  ///< running statistics
  std::uint64_t checksum = 0;        ///< of all that must be alike

  std::int64_t count() const;
  std::size_t piece_bytes(std::size_t piece) const;
  std::size_t largest_piece() const;  ///< bytes
  int holder(std::size_t piece) const { return holders.empty() ? 0 : holders[piece]; }
  std::vector<std::size_t> held_by(int process) const;
  /// In ascending order.
  std::vector<int> servers() const;
  /// Each piece and the rest travel as one message: throws bad_input where one is too long.
  void check_sizes() const;
};

/// The holder of each piece: servers 0, 1... get about the same number of values, the largest pieces first.
/// Only sizes decide. Throws bad_input where there are fewer pieces than servers.
std::vector<int> share_out(const std::vector<std::int64_t>& pieces, int servers);

}  // namespace banyan::parallel
