// Where a tall drawing is cut into columns. Pure.
#pragma once

#include <vector>

#include "draw/layered.hpp"
#include "draw/picture.hpp"

namespace banyan::draw {

struct Division {
  std::vector<bool> tagged;  ///< per connection: a tag with the blob's name takes the place of its wire
  std::vector<int> first;    ///< card of each column, and the number of cards
  /// Two columns, of which the second runs upwards beside the first: the net has the form of a U, with
  /// bridges from the way down to the way up.
  bool folded = false;
};

/// Blobs of sources that are read far below.
std::vector<bool> find_tags(const Picture& picture);
/// `whole`: the drawing in one column. `may_fold`: a U is allowed.
Division divide(const Picture& picture, const std::vector<bool>& tagged, const Drawing& whole, bool may_fold);
/// The newest of the blobs that cards before `place` make and cards from there on read: between two columns
/// the only one, but where the net is folded.
int trunk_at(const Picture& picture, const std::vector<bool>& tagged, int place);

}  // namespace banyan::draw
