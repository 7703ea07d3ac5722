// A file that grows by whole records, for as long as a run lasts: whenever the writer ends, the file holds
// the records appended so far, and no part of another one unless the process was killed within the write
// (Linux ends it at a page's end then) or the machine stopped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace banyan::io {

/// Failures throw runtime_failure with the path and the system's reason. Not thread-safe.
class AppendFile {
 public:
  /// Opens the file, or creates it. It belongs to this process until it is closed; a file that another one
  /// holds is a failure (where the file system has locks).
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Removes all from byte `size` on.
  void cut(std::int64_t size);
  /// In one piece. After a failure (a full disk) the file is as it was before, and can be tried again.
  void append(std::string_view record);
  /// Waits until all of it is on the disk.
  void sync();

 private:
  [[noreturn]] void fail(const std::string& doing, int error) const;
  std::string path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace banyan::io
