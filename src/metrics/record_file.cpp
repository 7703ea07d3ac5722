#include "banyan/metrics/record_file.hpp"

#include <bit>
#include <boost/crc.hpp>
#include <cstring>
#include <fstream>

#include "banyan/base/error.hpp"

namespace banyan::metrics {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class Number>
std::string bytes_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

/// Reads `bytes` and the checksum after them. False if they are not all there, or damaged.
bool read_checked(std::istream& file, std::string& bytes) {
  std::uint32_t stored = 0;
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.read(reinterpret_cast<char*>(&stored), sizeof stored);
  return file.good() && stored == masked_crc32c(bytes);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string framed(std::string_view record) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(record.size()));
  std::string frame = length + bytes_of(masked_crc32c(length));
  frame.reserve(frame.size() + record.size() + 4);
  frame += record;
  return frame += bytes_of(masked_crc32c(record));
}

std::int64_t read_frames(const std::string& path,
                         const std::function<bool(const std::string& record)>& accept) {
  std::ifstream file(path, std::ios::binary);
  if (!file) bad_input("cannot open ", path);
  file.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);
  std::int64_t accepted = 0;
  std::string length(sizeof(std::uint64_t), '\0'), record;
  while (read_checked(file, length)) {
    std::uint64_t size = 0;
    std::memcpy(&size, length.data(), sizeof size);
    if (size > bytes - static_cast<std::uint64_t>(accepted)) break;
    record.resize(size);
    if (!read_checked(file, record) || !accept(record)) break;
    accepted = static_cast<std::int64_t>(file.tellg());
  }
  return accepted;
}

}  // namespace banyan::metrics
