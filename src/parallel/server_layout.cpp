#include "banyan/parallel/server_layout.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "banyan/base/error.hpp"
#include "banyan/parallel/wire.hpp"

namespace banyan::parallel {

std::int64_t ServerLayout::count() const {
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0});
}

std::size_t ServerLayout::piece_bytes(std::size_t piece) const {
  return static_cast<std::size_t>(pieces[piece]) * size_of(type);
}

std::size_t ServerLayout::largest_piece() const {
  return static_cast<std::size_t>(pieces.empty() ? 0 : *std::max_element(pieces.begin(), pieces.end())) *
         size_of(type);
}

std::vector<std::size_t> ServerLayout::held_by(int process) const {
  std::vector<std::size_t> held;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece)
    if (holder(piece) == process) held.push_back(piece);
  return held;
}

std::vector<int> ServerLayout::servers() const {
  std::set<int> servers;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) servers.insert(holder(piece));
  return {servers.begin(), servers.end()};
}

void ServerLayout::check_sizes() const {
  constexpr std::size_t kMost = Wire::kMostBytes - (std::size_t{1} << 16);  // what encoding adds is less
  if (const std::size_t largest = largest_piece(); largest > kMost)
    bad_input("one of the net's parameters has ", largest,
              " bytes, which solvers that need norms do not cut: a parameter server sends at most ", kMost,
              " in one piece");
  if (rest_bytes > kMost)
    bad_input("the parameters that are not learned have ", rest_bytes,
              " bytes: a parameter server sends at most ", kMost);
}

std::vector<int> share_out(const std::vector<std::int64_t>& pieces, int servers) {
  if (static_cast<std::size_t>(servers) > pieces.size())
    bad_input("the net's parameters are ", pieces.size(), pieces.size() == 1 ? " piece" : " pieces",
              ": too few for ", servers, " parameter servers");
  std::vector<std::size_t> by_size(pieces.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a] > pieces[b]; });
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers), 0);
  std::vector<int> holders(pieces.size(), 0);
  for (const std::size_t piece : by_size) {
    const auto lightest = std::min_element(load.begin(), load.end());
    holders[piece] = static_cast<int>(lightest - load.begin());
    *lightest += pieces[piece];
  }
  return holders;
}

}  // namespace banyan::parallel
