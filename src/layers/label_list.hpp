// Lists of labels in settings, as operators take them.
#pragma once

#include <google/protobuf/repeated_field.h>

#include "banyan/base/error.hpp"
#include "banyan/ops/label_maps.hpp"

namespace banyan {

/// Throws bad_input naming the layer and the field if there are more than fit.
template <class Label>
ops::LabelList label_list(const google::protobuf::RepeatedField<Label>& labels, const std::string& layer,
                          const char* field) {
  if (labels.size() > ops::LabelList::kMost)
    bad_input("layer ", quoted(layer), ": ", field, " is given ", labels.size(), " times; at most ",
              ops::LabelList::kMost, " are possible");
  ops::LabelList list;
  for (const Label label : labels) list.label[list.count++] = static_cast<double>(label);
  return list;
}

}  // namespace banyan
