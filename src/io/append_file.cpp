#include "banyan/io/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {

AppendFile::AppendFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open", errno);
  try {
    // Where there are no locks, nobody can hold one.
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      runtime_failure(quoted(path, 4096), " is being written by another run");
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail("open", errno);
    size_ = info.st_size;
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

AppendFile::~AppendFile() { ::close(fd_); }

void AppendFile::cut(std::int64_t size) {
  if (::ftruncate(fd_, size) != 0) fail("shorten", errno);
  size_ = size;
}

void AppendFile::append(std::string_view record) {
  // Part of a record that an earlier failure left could not be removed then.
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail("write", errno);
  if (info.st_size != size_) cut(size_);
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t written = ::write(fd_, record.data() + done, record.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = written < 0 ? errno : ENOSPC;
      // If this fails too, the next append() tries it again.
      [[maybe_unused]] const int ignored = done > 0 ? ::ftruncate(fd_, size_) : 0;
      fail("write", error);
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += static_cast<std::int64_t>(record.size());
}

void AppendFile::sync() {
  if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) fail("sync", errno);
}

void AppendFile::fail(const std::string& doing, int error) const {
  runtime_failure("cannot ", doing, " ", quoted(path_, 4096), ": ", std::generic_category().message(error));
}

}  // namespace banyan::io
