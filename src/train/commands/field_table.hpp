// The fields of messages as `trainer layers TYPE` and `--help-field` show them.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace banyan {

struct FieldRow {
  std::string name, type, fallback, branch, about;  ///< fallback: the default; branch: as in io::FieldNote
  std::vector<std::string> values;                  ///< of an enumeration
};
FieldRow row_of(const google::protobuf::FieldDescriptor& field);
std::vector<FieldRow> rows_of(const google::protobuf::Descriptor& message);

/// Aligned columns, each line indented; branches after BVLC's fields, under their names.
std::string field_table(const std::vector<FieldRow>& rows);
std::string field_json(const FieldRow& row);
std::string fields_json(const std::vector<FieldRow>& rows);

}  // namespace banyan
