// What a device noted of numbers in its data that point outside, kept over the passes until it is read.
#pragma once

#include <array>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/ops/basic.hpp"
#include "banyan/tensor/tensor.hpp"

namespace banyan {

class IndexNote {
 public:
  struct Found {
    std::int64_t number;  ///< which of the values
    double value;
  };
  /// For ops::note_outside.
  Tensor& on(Context& context) {
    if (!noted_.defined()) {
      noted_ = Tensor(context.device(), Shape{2}, DType::f64);
      ops::fill(context, noted_, 0);
    }
    return noted_;
  }
  /// If there is one, calls complain(found), and forgets it.
  template <class Complain>
  void check(Context& context, const Complain& complain) {
    if (!noted_.defined()) return;
    std::array<double, 2> found{};
    copy_to_host(context, noted_, found.data());
    if (found[0] == 0) return;
    ops::fill(context, noted_, 0);
    complain(Found{static_cast<std::int64_t>(found[0]) - 1, found[1]});
  }
  /// Throws bad_input if there is one, of indices that must be integers in [0, limit).
  void check(Context& context, const std::string& layer, std::int64_t limit) {
    check(context, [&](const Found& found) {
      bad_input("layer ", quoted(layer), ": index ", found.value, " at place ", found.number,
                " is not an integer from 0 to ", limit - 1);
    });
  }

 private:
  Tensor noted_;  ///< f64 (2), see ops/rows.hpp
};

}  // namespace banyan
