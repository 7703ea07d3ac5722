#include "disk.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "base/clock.hpp"

namespace banyan::doctor {
namespace {

using Clock = std::chrono::steady_clock;

/// A file that is gone when the object is.
class ProbeFile {
 public:
  explicit ProbeFile(const std::string& folder) : path_(folder + "/.banyan_doctor_XXXXXX") {
    fd_ = ::mkstemp(path_.data());
    if (fd_ < 0) bad_input("cannot write to the folder ", quoted(folder), ": ", std::strerror(errno));
  }
  ~ProbeFile() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  void write(const std::vector<char>& block) const {
    for (std::size_t done = 0; done < block.size();) {
      const ssize_t written = ::write(fd_, block.data() + done, block.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("write");
      done += static_cast<std::size_t>(written);
    }
  }
  void sync() const {
    if (::fsync(fd_) != 0) fail("sync");
  }
  void rewind_without_cache() const {
    static_cast<void>(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED));
    if (::lseek(fd_, 0, SEEK_SET) != 0) fail("read");
  }
  /// False at the end.
  bool read(std::vector<char>& block) const {
    const ssize_t count = ::read(fd_, block.data(), block.size());
    if (count < 0 && errno != EINTR) fail("read");
    return count != 0;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    runtime_failure("cannot ", what, " ", path_, ": ", std::strerror(errno));
  }
  std::string path_;
  int fd_ = -1;
};

}  // namespace

std::string existing_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path at = fs::absolute(folder.empty() ? "." : folder, ignored).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();  // a/b/
  while (!fs::is_directory(at, ignored) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

DiskState measure_disk(const std::string& folder, std::uint64_t bytes) {
  DiskState disk;
  disk.folder = folder;
  struct statvfs system {};
  if (::statvfs(folder.c_str(), &system) != 0)
    bad_input("cannot look at the folder ", quoted(folder), ": ", std::strerror(errno));
  disk.free = std::uint64_t{system.f_bavail} * system.f_frsize;
  disk.size = std::uint64_t{system.f_blocks} * system.f_frsize;
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  const std::uint64_t blocks = std::min(bytes, disk.free / 4) / kBlock;
  const ProbeFile file(folder);
  if (blocks == 0) return disk;
  // File systems that compress would be fast with zeros.
  std::vector<char> block(kBlock);
  std::uint64_t state = 0x9e3779b97f4a7c15;
  auto start = Clock::now();
  double filling = 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const auto fill = Clock::now();
    for (std::size_t at = 0; at + sizeof state <= kBlock; at += sizeof state) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      std::memcpy(block.data() + at, &state, sizeof state);
    }
    filling += seconds_since(fill);
    file.write(block);
  }
  file.sync();
  const auto written = static_cast<double>(blocks * kBlock);
  disk.write = written / std::max(seconds_since(start) - filling, 1e-9);
  file.rewind_without_cache();
  start = Clock::now();
  while (file.read(block)) {
  }
  disk.read = written / std::max(seconds_since(start), 1e-9);
  return disk;
}

void judge_disk(const DiskState& disk, Findings& findings) {
  constexpr double kSlow = 20e6;  // bytes per second: a hundredth of what one disk does today
  const std::string text = cat(disk.folder, ": ", bytes_text(static_cast<double>(disk.free)), " of ",
                               bytes_text(static_cast<double>(disk.size)), " free; writes ",
                               bytes_text(disk.write), "/s, reads ", bytes_text(disk.read), "/s");
  const Figures figures = {{"free_bytes", cat(disk.free)},
                           {"write_bytes_per_second", json_number(disk.write)},
                           {"read_bytes_per_second", json_number(disk.read)}};
  if (disk.write == 0)
    findings.fail("disk", cat(disk.folder, " is full: ", bytes_text(static_cast<double>(disk.free)), " free"),
                  "make room, or choose another snapshot_prefix", figures);
  else if (disk.write < kSlow)
    findings.warn(
        "disk", text,
        "is it a network file system, or is another program writing? choose another snapshot_prefix",
        figures);
  else
    findings.ok("disk", text, figures);
}

}  // namespace banyan::doctor
