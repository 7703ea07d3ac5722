// APPNOTE 6.3: local header and contents of each member, central directory, its end record. All numbers are
// little-endian. Zip64 puts lengths that 32 bits cannot hold into extra fields and a second end record.
#include "zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "array_elements.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                        kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                      kLocator64Bytes = 20;
constexpr std::uint32_t kIn64 = 0xffffffff;  // the number is in a Zip64 field
constexpr std::uint16_t kEncrypted = 1, kUtf8 = 0x800, kVersion = 20, kDate = 1 << 5 | 1;  // 1980-01-01
constexpr std::uint64_t kMostCompressed = 1040;  // deflate: 258 bytes in 2 bits

struct Directory {
  std::uint64_t members = 0, size = 0, begin = 0;
};

class ZipReader {
 public:
  ZipReader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  Directory find_directory() const {
    const std::size_t end = find_end();
    Directory directory{number<std::uint16_t>(end + 10), number<std::uint32_t>(end + 12),
                        number<std::uint32_t>(end + 16)};
    if (end >= kLocator64Bytes && number<std::uint32_t>(end - kLocator64Bytes) == kLocator64) {
      const auto at = number<std::uint64_t>(end - kLocator64Bytes + 8);
      expect(at, kEnd64Bytes);
      if (number<std::uint32_t>(at) != kEnd64) damaged("the Zip64 end record is missing");
      directory = {number<std::uint64_t>(at + 32), number<std::uint64_t>(at + 40),
                   number<std::uint64_t>(at + 48)};
    }
    expect(directory.begin, directory.size);
    return directory;
  }

  std::vector<ZipMember> members() const {
    const Directory directory = find_directory();
    const std::uint64_t end = directory.begin + directory.size;
    std::vector<ZipMember> members;
    std::uint64_t at = directory.begin;
    for (std::uint64_t i = 0; i < directory.members; ++i) {
      if (end - at < kCentralBytes || number<std::uint32_t>(at) != kCentral)
        damaged("the directory is shorter than it says");
      const std::uint64_t name = number<std::uint16_t>(at + 28), extra = number<std::uint16_t>(at + 30),
                          comment = number<std::uint16_t>(at + 32);
      if (end - at - kCentralBytes < name + extra + comment) damaged("the directory is shorter than it says");
      members.push_back(member(at, name, extra, directory.begin));
      at += kCentralBytes + name + extra + comment;
    }
    refuse_overlaps(members);
    return members;
  }

 private:
  [[noreturn]] void damaged(const std::string& why) const {
    bad_input(origin_, ": ", why, ": the zip archive is damaged or another kind of file");
  }
  void expect(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) damaged("it refers to bytes outside the file");
  }
  template <class T>
  T number(std::uint64_t at) const {
    return number_at<T>(bytes_, at);
  }

  /// The end record is the last thing but for a comment, whose length it gives.
  std::size_t find_end() const {
    for (std::size_t comment = 0; comment <= 0xffff && comment + kEndBytes <= bytes_.size(); ++comment) {
      const std::size_t at = bytes_.size() - kEndBytes - comment;
      if (number<std::uint32_t>(at) == kEnd && number<std::uint16_t>(at + 20) == comment) return at;
    }
    damaged("there is no directory");
  }

  ZipMember member(std::uint64_t at, std::uint64_t name_length, std::uint64_t extra_length,
                   std::uint64_t data_end) const {
    ZipMember member;
    member.name = std::string(bytes_.substr(at + kCentralBytes, name_length));
    member.method = number<std::uint16_t>(at + 10);
    member.crc = number<std::uint32_t>(at + 16);
    std::uint64_t stored = number<std::uint32_t>(at + 20);
    member.size = number<std::uint32_t>(at + 24);
    member.begin = number<std::uint32_t>(at + 42);
    read_extra(bytes_.substr(at + kCentralBytes + name_length, extra_length),
               {&member.size, &stored, &member.begin});
    if ((number<std::uint16_t>(at + 8) & kEncrypted) != 0 || (member.method != 0 && member.method != 8))
      bad_input(origin_, ": member ", quoted(member.name), " is encrypted or compressed by method ",
                member.method, "; expected stored or deflated");
    if (member.begin > data_end || data_end - member.begin < kLocalBytes ||
        number<std::uint32_t>(member.begin) != kLocalHeader)
      damaged(cat("member ", quoted(member.name), " is not where the directory says"));
    const std::uint64_t header =
        kLocalBytes + number<std::uint16_t>(member.begin + 26) + number<std::uint16_t>(member.begin + 28);
    const std::uint64_t room = data_end - member.begin;
    if (header > room || stored > room - header)
      damaged(cat("member ", quoted(member.name), " is longer than the file"));
    member.stored = bytes_.substr(member.begin + header, stored);
    return member;
  }

  /// Zip64's field holds, in this order, those numbers that are full.
  void read_extra(std::string_view extra, std::initializer_list<std::uint64_t*> numbers) const {
    while (extra.size() >= 4) {
      const auto id = number_at<std::uint16_t>(extra, 0), size = number_at<std::uint16_t>(extra, 2);
      extra.remove_prefix(4);
      if (size > extra.size()) damaged("an extra field is longer than its record");
      std::string_view field = extra.substr(0, size);
      extra.remove_prefix(size);
      if (id != 1) continue;
      for (std::uint64_t* number : numbers) {
        if (*number != kIn64) continue;
        if (field.size() < 8) damaged("a Zip64 field is too short");
        *number = number_at<std::uint64_t>(field, 0);
        field.remove_prefix(8);
      }
    }
  }

  void refuse_overlaps(const std::vector<ZipMember>& members) const {
    std::vector<const ZipMember*> order;
    for (const ZipMember& member : members) order.push_back(&member);
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const std::string_view before = order[i - 1]->stored;
      const auto end = static_cast<std::uint64_t>(before.data() + before.size() - bytes_.data());
      if (order[i]->begin < end)
        damaged(cat("members ", quoted(order[i - 1]->name), " and ", quoted(order[i]->name), " overlap"));
    }
  }

  std::string_view bytes_;
  const std::string& origin_;
};

/// A deflated member, whose size is known to be possible; empty if it is damaged.
std::string inflated(const ZipMember& member) {
  std::string contents(member.size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) runtime_failure("zlib cannot be initialized");
  std::string_view from = member.stored;
  std::size_t made = 0;
  int status = Z_OK;
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // zlib counts in 32 bits
  while (status == Z_OK) {
    const std::size_t in = std::min(from.size(), kPiece), out = std::min(contents.size() - made, kPiece);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(contents.data() + made);
    stream.avail_out = static_cast<uInt>(out);
    status = inflate(&stream, Z_NO_FLUSH);
    from.remove_prefix(in - stream.avail_in);
    made += out - stream.avail_out;
  }
  inflateEnd(&stream);
  contents.resize(status == Z_STREAM_END && from.empty() ? made : 0);
  return contents;
}

void append_header(std::string& to, const std::string& name, std::uint32_t crc, std::uint32_t size) {
  const bool ascii = std::all_of(name.begin(), name.end(), [](unsigned char c) { return c < 128; });
  append_number(to, kVersion);
  append_number(to, ascii ? std::uint16_t{0} : kUtf8);
  append_number(to, std::uint16_t{0});  // stored
  append_number(to, std::uint16_t{0});  // midnight
  append_number(to, kDate);
  append_number(to, crc);
  append_number(to, size);
  append_number(to, size);
  append_number(to, static_cast<std::uint16_t>(name.size()));
  append_number(to, std::uint16_t{0});  // no extra field
}

}  // namespace

std::vector<ZipMember> read_zip(std::string_view bytes, const std::string& origin) {
  return ZipReader(bytes, origin).members();
}

std::string contents_of(const ZipMember& member, const std::string& origin) {
  const std::string where = cat(origin, ": member ", quoted(member.name));
  std::string contents;
  if (member.method == 0)
    contents = std::string(member.stored);
  else if (member.size / kMostCompressed <= member.stored.size())
    contents = inflated(member);
  if (contents.size() != member.size)
    bad_input(where, " does not have the ", member.size, " bytes that the directory says");
  if (checksum_of(contents) != member.crc) bad_input(where, " is damaged: its checksum is wrong");
  return contents;
}

void ZipWriter::write(const std::string& bytes) {
  file_.write(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view contents) {
  if (at_ + contents.size() + directory_.size() + name.size() + 1024 > kIn64 || name.size() > 0xffff ||
      members_ >= 0xffff)
    runtime_failure("cannot write ", quoted(file_.path()), ": a zip archive is limited to 4 GiB and ", 0xffff,
                    " members; safetensors is not");
  const std::uint32_t crc = checksum_of(contents);
  append_number(directory_, kCentral);
  append_number(directory_, kVersion);
  append_header(directory_, name, crc, static_cast<std::uint32_t>(contents.size()));
  directory_.append(2 + 2 + 2 + 4, '\0');  // no comment, disk 0, attributes
  append_number(directory_, static_cast<std::uint32_t>(at_));
  directory_ += name;
  std::string header;
  append_number(header, kLocalHeader);
  append_header(header, name, crc, static_cast<std::uint32_t>(contents.size()));
  write(header + name);
  file_.write(contents);
  at_ += contents.size();
  ++members_;
}

void ZipWriter::finish() {
  std::string end;
  append_number(end, kEnd);
  append_number(end, std::uint32_t{0});  // disk 0
  append_number(end, static_cast<std::uint16_t>(members_));
  append_number(end, static_cast<std::uint16_t>(members_));
  append_number(end, static_cast<std::uint32_t>(directory_.size()));
  append_number(end, static_cast<std::uint32_t>(at_));
  append_number(end, std::uint16_t{0});  // no comment
  file_.write(directory_);
  file_.write(end);
}

}  // namespace banyan::io
