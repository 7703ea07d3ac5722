// contains: does a range hold a value?
#pragma once

#include <algorithm>
#include <iterator>

namespace banyan {

template <class Range, class Value>
bool contains(const Range& range, const Value& value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

}  // namespace banyan
