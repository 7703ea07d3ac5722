// Numbers that are known when the program runs as constants of the compiler: loops over as many registers
// unroll.
#pragma once

#include <cstdint>
#include <type_traits>

namespace banyan::ops {

/// Calls body(integral_constant) for `number` between 1 and kMost.
template <int kMost, class Body>
void with_constant(std::int64_t number, const Body& body) {
  if constexpr (kMost > 1)
    if (number < kMost) return with_constant<kMost - 1>(number, body);
  body(std::integral_constant<int, kMost>());
}

/// body(first, constant number) for `count` items, in as few and as equal parts as possible.
template <int kMost, class Body>
void in_parts(std::int64_t count, const Body& body) {
  const std::int64_t parts = (count + kMost - 1) / kMost;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = count * part / parts;
    with_constant<kMost>(count * (part + 1) / parts - first, [&](auto number) { body(first, number); });
  }
}

}  // namespace banyan::ops
