// safetensors: 8 bytes with the length of the header, the header (JSON: of each tensor its dtype, shape and
// data_offsets), then the values, without gaps.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "array_elements.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/arrays.hpp"
#include "banyan/io/atomic_file.hpp"
#include "blob_reader.hpp"

namespace banyan::io {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // as in the format's own reader
constexpr std::size_t kLargestSafetensors = std::size_t{1} << 40;
constexpr const char* kMetadata = "__metadata__";

struct Entry {
  std::string name;
  const ElementType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes after the header
};

/// A list of whole numbers >= 0; `what` begins the message.
std::vector<std::int64_t> numbers_of(const Value& value, const std::string& what) {
  constexpr double kMost = 9007199254740992.0;  // 2^53: a double holds all below
  if (!value.has_list_value()) bad_input(what, " is not a list of numbers");
  std::vector<std::int64_t> numbers;
  for (const Value& item : value.list_value().values()) {
    const double number = item.kind_case() == Value::kNumberValue ? item.number_value() : -1;
    if (!(number >= 0 && number < kMost) || number != std::floor(number))
      bad_input(what, ": expected whole numbers >= 0");
    numbers.push_back(static_cast<std::int64_t>(number));
  }
  return numbers;
}

Entry read_entry(const std::string& name, const Value& value, std::uint64_t data_size,
                 const std::string& origin) {
  const std::string where = cat(origin, ": tensor ", quoted(name));
  if (!value.has_struct_value() || value.struct_value().fields_size() != 3)
    bad_input(where, ": expected dtype, shape and data_offsets");
  const auto& fields = value.struct_value().fields();
  const auto field = [&](const char* key) -> const Value& {
    const auto found = fields.find(key);
    if (found == fields.end()) bad_input(where, ": ", key, " is missing");
    return found->second;
  };
  Entry entry;
  entry.name = name;
  const Value& dtype = field("dtype");
  entry.type = element_type_of_safetensors(dtype.string_value());
  if (entry.type == nullptr) bad_input(where, ": dtype ", quoted(dtype.string_value()), " is not supported");
  entry.shape = numbers_of(field("shape"), where + ": shape");
  const std::vector<std::int64_t> offsets = numbers_of(field("data_offsets"), where + ": data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] || static_cast<std::uint64_t>(offsets[1]) > data_size)
    bad_input(where, ": data_offsets should be a begin and an end within the ", data_size, " bytes of data");
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  std::uint64_t count = 0;
  const std::uint64_t bytes = entry.end - entry.begin;
  if (entry.shape.size() > kMostAxes || !element_count(entry.shape, count) ||
      bytes / entry.type->width != count || bytes % entry.type->width != 0)
    bad_input(where, ": the shape ", shape_text(entry.shape), " of ", entry.type->safetensors,
              " does not fit its ", bytes, " bytes");
  return entry;
}

Struct parse_header(std::string_view text, const std::string& origin) {
  Struct header;
  const auto status = google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &header);
  if (text.empty() || text.front() != '{' || !status.ok())
    bad_input(origin, ": the header is not JSON: the file is damaged or another kind of file");
  return header;
}

}  // namespace

NamedArrays parse_safetensors(std::string_view bytes, const std::string& origin) {
  if (bytes.size() < kLengthBytes)
    bad_input(origin, ": ", bytes.size(), " bytes are too few for a safetensors file");
  const auto length = number_at<std::uint64_t>(bytes, 0);
  if (length > bytes.size() - kLengthBytes || length > kLongestHeader)
    bad_input(origin, ": a header of ", length, " bytes does not fit the file of ", bytes.size(),
              " bytes: it is truncated, damaged or no safetensors file");
  const std::string_view data = bytes.substr(kLengthBytes + length);
  const Struct header = parse_header(bytes.substr(kLengthBytes, length), origin);
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.fields())
    if (name != kMetadata) entries.push_back(read_entry(name, value, data.size(), origin));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  NamedArrays arrays;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      bad_input(origin, ": tensor ", quoted(entry.name), " begins at byte ", entry.begin,
                " of the data; the one before it ends at ", at);
    at = entry.end;
    NamedArray& array = arrays.emplace_back();
    array.name = entry.name;
    array.data.shape = entry.shape;
    entry.type->decode(data.substr(entry.begin, entry.end - entry.begin), array.data);
  }
  if (at != data.size())
    bad_input(origin, ": the tensors end at byte ", at, " of ", data.size(), " bytes of data");
  return arrays;
}

NamedArrays read_safetensors(const std::string& path) {
  return parse_safetensors(read_file(path, kLargestSafetensors), path);
}

void write_safetensors(const std::string& path, const NamedArrays& arrays) {
  std::vector<std::string> entries;
  std::set<std::string> names;
  std::size_t at = 0;
  for (const NamedArray& array : arrays) {
    if (!names.insert(array.name).second || array.name == kMetadata)
      bad_input("cannot write ", quoted(path), ": the name ", quoted(array.name), " is taken");
    const std::size_t end = at + bytes_of(array.data).size();
    std::vector<std::string> shape;
    for (const std::int64_t length : array.data.shape) shape.push_back(std::to_string(length));
    entries.push_back(cat(json_string(array.name), ":{\"dtype\":\"", element_type_of(array.data).safetensors,
                          "\",\"shape\":[", join(shape, ","), "],\"data_offsets\":[", at, ",", end, "]}"));
    at = end;
  }
  std::string header = "{" + join(entries, ",") + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // values begin at a multiple of 8 bytes
  std::string length;
  append_number(length, std::uint64_t{header.size()});
  AtomicFile file(path);
  file.write(length);
  file.write(header);
  for (const NamedArray& array : arrays) file.write(bytes_of(array.data));
  file.commit();
}

}  // namespace banyan::io
