// npz: a zip archive whose member `name.npy` holds an array. An .npy file is 6 bytes of magic, two of
// version, the length of the header (2 bytes in version 1, else 4), the header (a Python dict with descr,
// fortran_order and shape) and the values.
#include <charconv>
#include <set>

#include "array_elements.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/arrays.hpp"
#include "blob_reader.hpp"
#include "zip.hpp"

namespace banyan::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY", kExtension = ".npy";
constexpr std::size_t kLargestFile = std::size_t{1} << 40, kHeaderAlignment = 64;

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// The dict, as Python writes it: strings in single or double quotes, tuples of whole numbers, True, False.
class DictReader {
 public:
  DictReader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyHeader read() {
    NpyHeader header;
    std::set<std::string> keys;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      if (!keys.insert(key).second) fail();
      expect(':');
      if (key == "descr")
        header.descr = string();
      else if (key == "fortran_order")
        header.fortran_order = boolean();
      else if (key == "shape")
        header.shape = tuple();
      else
        fail();
      if (!take(',') && !is('}')) fail();
    }
    skip_space();
    if (keys.size() != 3 || !text_.empty()) fail();
    return header;
  }

 private:
  [[noreturn]] void fail() const { bad_input(where_, ": the .npy header is not one of an array of numbers"); }
  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool is(char c) {
    skip_space();
    return !text_.empty() && text_.front() == c;
  }
  bool take(char c) {
    if (!is(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::string string() {
    const char quote = is('"') ? '"' : '\'';
    expect(quote);
    const std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) fail();
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    if (take_word("True")) return true;
    if (!take_word("False")) fail();
    return false;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
      if (error != std::errc() || number < 0) fail();
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      numbers.push_back(number);
      if (!take(',') && !is(')')) fail();
    }
    return numbers;
  }

  std::string_view text_;
  const std::string& where_;
};

/// From column-major (first axis fastest) to row-major order.
template <class T>
void to_row_major(const std::vector<std::int64_t>& shape, std::vector<T>& values) {
  std::vector<T> ordered(values.size());
  std::vector<std::int64_t> index(shape.size(), 0);
  for (T& value : ordered) {
    std::size_t from = 0;
    for (std::size_t axis = shape.size(); axis-- > 0;)
      from = from * static_cast<std::size_t>(shape[axis]) + static_cast<std::size_t>(index[axis]);
    value = values[from];
    for (std::size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
  values.swap(ordered);
}

BlobData parse_npy(std::string_view bytes, const std::string& where) {
  const std::size_t version =
      bytes.size() > kMagic.size() ? number_at<std::uint8_t>(bytes, kMagic.size()) : 0;
  const std::size_t length_bytes = version == 1 ? 2 : 4, begin = kMagic.size() + 2 + length_bytes;
  if (!bytes.starts_with(kMagic) || bytes.size() < begin || version < 1 || version > 3)
    bad_input(where, " is not an .npy file of version 1 to 3");
  const std::size_t length = version == 1 ? number_at<std::uint16_t>(bytes, begin - length_bytes)
                                          : number_at<std::uint32_t>(bytes, begin - length_bytes);
  if (length > bytes.size() - begin) bad_input(where, " is truncated in its header");
  const NpyHeader header = DictReader(bytes.substr(begin, length), where).read();
  const ElementType* type = element_type_of_npy(header.descr);
  if (type == nullptr) bad_input(where, ": the type ", quoted(header.descr), " is not supported");
  const std::string_view values = bytes.substr(begin + length);
  std::uint64_t count = 0;
  if (header.shape.size() > kMostAxes || !element_count(header.shape, count) ||
      values.size() / type->width != count || values.size() % type->width != 0)
    bad_input(where, ": the shape ", shape_text(header.shape), " of ", header.descr, " does not fit its ",
              values.size(), " bytes");
  BlobData blob;
  blob.shape = header.shape;
  type->decode(values, blob);
  if (header.fortran_order) {
    to_row_major(blob.shape, blob.floats);
    to_row_major(blob.shape, blob.doubles);
  }
  return blob;
}

std::string npy_of(const BlobData& blob) {
  std::vector<std::string> lengths;
  for (const std::int64_t length : blob.shape) lengths.push_back(std::to_string(length));
  std::string header = cat("{'descr': '", element_type_of(blob).npy, "', 'fortran_order': False, 'shape': (",
                           join(lengths, ", "), lengths.size() == 1 ? ",), }" : "), }");
  std::string bytes(kMagic);
  bytes += {'\1', '\0'};
  const std::size_t before = bytes.size() + 2;
  header.resize((before + header.size() + kHeaderAlignment) / kHeaderAlignment * kHeaderAlignment - before,
                ' ');
  header.back() = '\n';
  append_number(bytes, static_cast<std::uint16_t>(header.size()));
  return bytes.append(header).append(bytes_of(blob));
}

}  // namespace

NamedArrays parse_npz(std::string_view bytes, const std::string& origin) {
  NamedArrays arrays;
  std::set<std::string> names;
  for (const ZipMember& member : read_zip(bytes, origin)) {
    const std::string where = cat(origin, ": member ", quoted(member.name));
    if (!member.name.ends_with(kExtension)) bad_input(where, " is not an array (.npy)");
    const std::string name = member.name.substr(0, member.name.size() - kExtension.size());
    if (!names.insert(name).second) bad_input(where, " occurs twice");
    arrays.push_back({name, parse_npy(contents_of(member, origin), where)});
  }
  return arrays;
}

NamedArrays read_npz(const std::string& path) { return parse_npz(read_file(path, kLargestFile), path); }

void write_npz(const std::string& path, const NamedArrays& arrays) {
  AtomicFile file(path);
  ZipWriter zip(file);
  std::set<std::string> names;
  for (const NamedArray& array : arrays) {
    if (!names.insert(array.name).second)
      bad_input("cannot write ", quoted(path), ": the name ", quoted(array.name), " is taken");
    zip.add(array.name + std::string(kExtension), npy_of(array.data));
  }
  zip.finish();
  file.commit();
}

}  // namespace banyan::io
