#include "data/leveldb_files.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {

namespace {

namespace fs = std::filesystem;

// A log is a sequence of blocks; within one, records follow each other, each a head (checksum, length, kind)
// and its bytes. What does not fit into a block goes on in the next as another record. A rest that is too
// short for a head is left empty.
constexpr std::uint64_t kBlock = 32768, kHead = 7;
enum Kind : std::uint8_t { none = 0, whole = 1, first = 2, middle = 3, last = 4 };

/// Damage other than a missing end is LevelDB's to find.
bool is_cut_off(const fs::path& log) {
  std::ifstream file(log, std::ios::binary);
  std::error_code error;
  const std::uint64_t size = fs::file_size(log, error);
  if (!file || error) return false;
  std::uint8_t before = whole;
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t rest = kBlock - at % kBlock;
    if (rest < kHead) {
      at += rest;
      continue;
    }
    if (size - at < kHead) return true;
    unsigned char head[kHead];
    file.seekg(static_cast<std::streamoff>(at));
    if (!file.read(reinterpret_cast<char*>(head), kHead)) return false;
    const std::uint64_t length = head[4] + 256U * head[5];
    if (head[6] == none || head[6] > last || kHead + length > rest) return false;
    at += kHead + length;
    if (at > size) return true;
    before = head[6];
  }
  return before == first || before == middle;
}

}  // namespace

std::string cut_off_log(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".log" && is_cut_off(entry.path())) return entry.path().filename();
  return "";
}

LinkFolder::LinkFolder(const std::string& folder) {
  const auto fail = [&](const std::string& why) {
    runtime_failure("cannot make a folder with links to ", banyan::quoted(folder), ": ", why);
  };
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "banyan_leveldb_XXXXXX").string();
  if (error) fail(error.message());
  if (::mkdtemp(name.data()) == nullptr) fail(std::strerror(errno));
  path_ = name;
  const fs::path from = fs::canonical(folder, error);
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const std::string file = entry.path().filename();
    if (file != "LOCK" && !file.starts_with("LOG") && !error)
      fs::create_symlink(entry.path(), fs::path(path_) / file, error);
  }
  if (!error) return;
  const std::string why = error.message();
  fs::remove_all(path_, error);
  fail(why);
}

LinkFolder::~LinkFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

bool can_write_in(const std::string& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0;
}

}  // namespace banyan::data
