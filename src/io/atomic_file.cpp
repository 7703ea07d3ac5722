#include "banyan/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>
#include <system_error>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::io {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Closes the descriptor when the scope is left.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

AtomicFile::AtomicFile(const std::string& path, std::function<void()> beat)
    : path_(path), temporary_(path + ".tmp." + std::to_string(::getpid())), beat_(std::move(beat)) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  // Nothing was made, so there is nothing to remove.
  if (fd_ < 0) runtime_failure("cannot create ", quoted(temporary_, 4096), ": ", reason(errno));
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(const void* bytes, std::size_t size) {
  if (fd_ < 0) runtime_failure("writing to ", quoted(path_, 4096), " after it was closed");
  // Pieces that a slow disk writes in seconds; Linux writes at most 2 GiB - 4 KiB in one call.
  constexpr std::size_t kLargestWrite = std::size_t{1} << 26;
  const char* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(fd_, next, std::min(size, kLargestWrite));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("write", errno);
    }
    if (written == 0) fail("write", ENOSPC);
    next += written;
    size -= static_cast<std::size_t>(written);
    if (beat_) beat_();
  }
}

/// 0, or the error. No system call tells how far a sync has come, so a thread waits for it.
int AtomicFile::sync(int fd) const {
  const auto call = [fd] { return ::fsync(fd) == 0 ? 0 : errno; };
  if (!beat_) return call();
  using namespace std::chrono_literals;
  const auto until = std::chrono::steady_clock::now() + 10min;
  std::future<int> error = std::async(std::launch::async, call);
  while (error.wait_for(100ms) != std::future_status::ready)
    if (std::chrono::steady_clock::now() < until) beat_();
  return error.get();
}

void AtomicFile::commit() {
  if (fd_ < 0) runtime_failure("committing ", quoted(path_, 4096), " after it was closed");
  if (const int error = sync(fd_); error != 0) fail("sync", error);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("close", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  const Descriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // A folder that may be written but not read, or a file system without folder syncs, is no reason to fail.
  const int error = folder.get() >= 0 ? sync(folder.get()) : 0;
  if (error != 0 && error != EINVAL && error != EROFS)
    runtime_failure("cannot sync the folder of ", quoted(path_, 4096), ": ", reason(error));
}

void AtomicFile::fail(const std::string& doing, int error) {
  discard();
  runtime_failure("cannot ", doing, " ", quoted(path_, 4096), ": ", reason(error),
                  "; a file of that name is as it was before");
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

std::string read_file(const std::string& path, std::size_t max_bytes) {
  const std::string shown = quoted(path, 4096);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) bad_input("cannot open ", shown, ": ", reason(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) bad_input("cannot read ", shown, ": ", reason(errno));
  if (S_ISDIR(info.st_mode)) bad_input("cannot read ", shown, ": expected a file, found a folder");
  const auto too_large = [&] {
    bad_input(shown, " is too large: at most ", max_bytes, " bytes can be read");
  };
  const auto announced = static_cast<std::size_t>(std::max<off_t>(info.st_size, 0));
  if (announced > max_bytes) too_large();

  // The announced size is only a hint: pipes announce 0, and a file may grow or shrink meanwhile.
  std::string content;
  std::size_t size = 0;
  content.resize(announced + 1);
  while (true) {
    if (size == content.size()) content.resize(std::max<std::size_t>(size * 2, 4096));
    const ssize_t got = ::read(file.get(), content.data() + size,
                               std::min<std::size_t>(content.size() - size, std::size_t{1} << 30));
    if (got < 0) {
      if (errno == EINTR) continue;
      bad_input("cannot read ", shown, ": ", reason(errno));
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
    if (size > max_bytes) too_large();
  }
  content.resize(size);
  return content;
}

}  // namespace banyan::io
