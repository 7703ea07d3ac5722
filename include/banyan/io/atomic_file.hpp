// Files that are either complete or absent: a crash, a kill or a full disk leaves the earlier file as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace banyan::io {

/// Writes `<path>.tmp.<pid>.<start of the process, in clock ticks since boot>` in the same folder; commit()
/// syncs it, renames it over `path` and syncs the folder. Without commit(), and after any failure, the
/// temporary file is removed and `path` is untouched. A killed process leaves it behind; the lock that every
/// writer holds on its file (flock) shows whether the writer is still running, wherever it runs. Failures
/// throw runtime_failure with the path and the system's reason. Not thread-safe. Disks are slow: `beat`, if
/// given, is called on the caller's thread after every piece written and about ten times a second during a
/// sync, for ten minutes; a sync that takes longer has stalled.
/// What is no regular file (a device such as /dev/null, a pipe, /dev/stdout whatever it leads to) cannot be
/// replaced: it is written to directly.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path, std::function<void()> beat = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Syncs what was written; nothing can be written afterwards.
  void complete();
  /// complete(), then makes the file appear under its name.
  void commit();

  const std::string& path() const { return path_; }
  /// CRC-32 of what was written so far.
  std::uint32_t checksum() const { return checksum_; }

 private:
  bool open();
  void open_in_place();
  int sync(int fd) const;
  [[noreturn]] void fail(const std::string& doing, int error);
  void discard() noexcept;

  std::string path_;
  std::string temporary_;  ///< empty if the file is written in place, and once there is none any more
  std::function<void()> beat_;
  int fd_ = -1;  ///< holds the lock
  std::uint32_t checksum_ = 0;
  bool complete_ = false;
  bool in_place_ = false;
};

/// The target's name, if `name` is that of an AtomicFile's temporary file; otherwise empty.
std::string name_of_temporary(const std::string& name);
/// Removes the temporary file at `path` if the process that wrote it is gone. False: it stays, because the
/// writer is alive, because that cannot be determined (a file system without locks), or because it must not
/// be removed.
bool remove_abandoned(const std::string& path);

/// Writes `bytes` to `path` through an AtomicFile.
void write_file(const std::string& path, std::string_view bytes);

/// A file's contents. Throws bad_input if it is missing, a folder, unreadable or longer than `max_bytes`.
std::string read_file(const std::string& path, std::size_t max_bytes);

/// CRC-32, as AtomicFile::checksum.
std::uint32_t checksum_of(std::string_view bytes);
/// Of a file of any length, read in pieces. Throws bad_input.
std::uint32_t checksum_of_file(const std::string& path);

}  // namespace banyan::io
