// The pieces of the parameters that one server holds: workers' differences come in, values go out.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/parallel/server_layout.hpp"
#include "parallel/server_messages.hpp"

namespace banyan::parallel {

/// A worker's difference: the pieces that are held, one after the other.
struct ArrivingDifference {
  std::vector<char> values;
  std::vector<bool> arrived;  ///< by piece of the layout
  std::size_t missing = 0;
  std::uint64_t received = 0, saved = 0;  ///< bytes
};

class HeldPieces {
 public:
  HeldPieces(const ServerLayout& layout, int holder);

  std::size_t count() const { return pieces_.size(); }
  /// Of the longest message that brings an encoded piece or `more` bytes.
  std::size_t longest_message(std::size_t more) const;
  /// All pieces of a difference will come.
  void expect(ArrivingDifference& difference) const;
  /// Runtime failure if the piece is not expected.
  void take(ArrivingDifference& difference, int piece, const char* data, std::size_t bytes) const;
  /// Values of the layout's flat parameters, as workers get them.
  std::vector<ServerPost::Message> values_messages(std::int64_t version, const char* flat) const;

 private:
  const ServerLayout& layout_;
  std::vector<std::size_t> pieces_;
  std::vector<std::size_t> offsets_;  ///< by piece of the layout: bytes, in ArrivingDifference::values
  std::size_t bytes_ = 0;
};

}  // namespace banyan::parallel
