// What layers of CTC (see ops/ctc.hpp) have in common: the shapes of their inputs.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/ctc.hpp"

namespace banyan {

/// The sizes of scores T x N x C; `labels` is 0. refuse(parts...) throws.
template <class Refuse>
ops::CtcSizes ctc_sizes(const Blob& scores, const Refuse& refuse) {
  const Shape& shape = scores.shape;
  if (shape.axes() < 3 || shape.count(3) != 1 || shape[2] < 1)
    refuse("input ", quoted(scores.name), " has the shape ", shape.to_string(),
           "; expected time steps x sequences x classes");
  return {shape[0], shape[1], shape[2], 0};
}

/// Is it rows x columns?
inline bool is_table(const Blob& input, std::int64_t rows, std::int64_t columns) {
  const Shape& shape = input.shape;
  return shape.axes() >= 2 && shape[0] == rows && shape[1] == columns && shape.count(2) == 1;
}

/// Labels of N sequences, N x L: L in a row; as blanks those are written that there are none of.
inline ops::CtcLabels labels_in_rows(const Blob& labels) {
  const std::int64_t most = labels.shape.count(1);
  return {.labels = labels.data, .label_step = 1, .sequence_step = most, .most = most, .skips_blanks = true};
}

/// T x N: in columns, ended by a negative number.
inline ops::CtcLabels labels_in_columns(const Blob& labels) {
  return {.labels = labels.data,
          .label_step = labels.shape[1],
          .sequence_step = 1,
          .most = labels.shape[0],
          .ends_at_negative = true};
}

/// A blank of a file, of which -1 (or less) is the last class.
template <class Refuse>
std::int64_t blank_class(const char* field, std::int64_t written, std::int64_t classes,
                         const Refuse& refuse) {
  if (written >= classes)
    refuse(field, " is ", written, ", but there are ", classes, " classes, 0 to ", classes - 1);
  return written < 0 ? classes - 1 : written;
}

}  // namespace banyan
