// All calls of HDF5: libbanyan_hdf5.so.
#include <fcntl.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <numeric>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/log.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/weights.hpp"
#include "io/hdf5_backend.hpp"

namespace banyan::io {
namespace {

/// Held during every use of the library.
class Lock {
 public:
  Lock() : lock_(*mutex_) {
    static const bool once = [] {
      // A thread that hangs in a read at the end of the process must not stop it.
      H5dont_atexit();
      return true;
    }();
    static_cast<void>(once);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors become exceptions here
  }

  /// In a new process, whose only thread is a copy of the one that had the lock.
  static void forget() { mutex_ = new std::recursive_mutex; }

 private:
  inline static std::recursive_mutex* mutex_ = new std::recursive_mutex;
  std::lock_guard<std::recursive_mutex> lock_;
};

/// Closes an HDF5 identifier when the scope is left.
class Id {
 public:
  using Close = herr_t (*)(hid_t);
  Id() = default;
  Id(hid_t id, Close close) : id_(id), close_(close) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Id() {
    if (id_ < 0) return;
    const Lock lock;
    close_(id_);
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// What the library says about its last failure: the innermost reason.
std::string reason() {
  std::string text;
  const auto keep_last = [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
    if (error->desc != nullptr) *static_cast<std::string*>(to) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_last, &text);
  return text.empty() ? "HDF5 gives no reason" : text;
}

hid_t type_in_memory(Hdf5Number type) {
  switch (type) {
    case Hdf5Number::f32:
      return H5T_NATIVE_FLOAT;
    case Hdf5Number::f64:
      return H5T_NATIVE_DOUBLE;
    case Hdf5Number::i32:
      return H5T_NATIVE_INT32;
    case Hdf5Number::u8:
      break;
  }
  return H5T_NATIVE_UINT8;
}

std::size_t size_in_memory(Hdf5Number type) { return H5Tget_size(type_in_memory(type)); }

std::vector<hsize_t> dims_of(const std::vector<std::int64_t>& shape) { return {shape.begin(), shape.end()}; }

Id make_space(const std::vector<std::int64_t>& shape) {
  const std::vector<hsize_t> dims = dims_of(shape);
  return {dims.empty() ? H5Screate(H5S_SCALAR)
                       : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
          H5Sclose};
}

/// Groups on the way to a new object are made as well.
Id links_with_groups() {
  Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  return links;
}

/// Without times, so that equal contents are equal files.
Id new_dataset_settings() {
  Id settings(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(settings.get(), false);
  return settings;
}

/// For this many values. Where types are converted, HDF5 makes a buffer of a MiB for every call otherwise,
/// which takes longer than to read a few.
Id transfer_of(std::uint64_t values) {
  constexpr std::uint64_t kLeast = 4096, kMost = 1 << 20, kWidest = 16;  // bytes
  Id transfer(H5Pcreate(H5P_DATASET_XFER), H5Pclose);
  H5Pset_buffer(transfer.get(), std::clamp(std::min(values, kMost) * kWidest, kLeast, kMost), nullptr,
                nullptr);
  return transfer;
}

struct OpenFile {
  std::string name;
  Id file;
  bool writing = false;

  [[noreturn]] void fail(const std::string& doing, const std::string& path, const std::string& why) const {
    const std::string text = cat(name, ": cannot ", doing, path.empty() ? "" : " " + quoted(path), ": ", why);
    if (writing) runtime_failure(text);
    bad_input(text);
  }
};

// -------- datasets

struct OpenDataset {
  std::shared_ptr<OpenFile> file;
  std::string path;
  Id id;
  std::vector<std::int64_t> shape;
  bool is_double = false;
  std::int64_t count = 1;
};

void read_all(const OpenDataset& set, Hdf5Number type, void* values) {
  const Lock lock;
  if (set.count == 0) return;
  if (H5Dread(set.id.get(), type_in_memory(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
    set.file->fail("read", set.path, reason());
}

class Dataset : public Hdf5Dataset {
 public:
  explicit Dataset(OpenDataset opened) : set_(std::move(opened)) {}

  const std::vector<std::int64_t>& shape() const override { return set_.shape; }
  bool is_double() const override { return set_.is_double; }
  std::int64_t count() const override { return set_.count; }

 protected:
  void read_as(Hdf5Number type, void* values) const override { read_all(set_, type, values); }

  void read_rows_as(Hdf5Number type, std::uint64_t first, std::uint64_t count, void* values) const override {
    const Lock lock;
    std::vector<hsize_t> sizes = dims_of(set_.shape), begin(sizes.size(), 0);
    const Id all(H5Dget_space(set_.id.get()), H5Sclose);
    begin.at(0) = first;
    sizes.at(0) = count;
    if (std::count(sizes.begin(), sizes.end(), hsize_t{0}) > 0) return;
    const Id part(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose);
    const Id transfer =
        transfer_of(std::accumulate(sizes.begin(), sizes.end(), hsize_t{1}, std::multiplies<>()));
    if (H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, begin.data(), nullptr, sizes.data(), nullptr) < 0 ||
        H5Dread(set_.id.get(), type_in_memory(type), part.get(), all.get(), transfer.get(), values) < 0)
      set_.file->fail(cat("read row ", first, " of"), set_.path, reason());
  }

 private:
  OpenDataset set_;
};

// -------- files

[[noreturn]] void read_in_copy(const std::function<void()>& read, rlim_t seconds) {
  Lock::forget();
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU}) ::signal(signal, SIG_DFL);
  const rlimit no_core{0, 0}, time{seconds, seconds + 1};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::setrlimit(RLIMIT_CPU, &time);
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
  set_log_sink([](Severity, const std::string&, const std::source_location&) {});
  try {
    read();
  } catch (const std::exception&) {  // the same follows in the process itself
  }
  ::_exit(0);
}

void rehearse(const std::string& path, const std::function<void()>& read) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return;  // `read` will say so
  constexpr off_t kLeastBytesPerSecond = 20'000'000;
  pid_t copy;
  {
    const Lock lock;  // no other thread is inside the library
    copy = ::fork();
    if (copy == 0) read_in_copy(read, static_cast<rlim_t>(1 + file.st_size / kLeastBytesPerSecond));
  }
  int status = 0;
  while (copy > 0 && ::waitpid(copy, &status, 0) < 0)
    if (errno != EINTR) copy = -1;
  if (copy < 0)
    log_warning(cat(quoted(path, 4096), " is read without having tried it in a process of its own (",
                    std::strerror(errno), "): should it be damaged, this one may crash."));
  else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    bad_input(quoted(path, 4096), " is damaged: HDF5's library does not come to an end with it");
  else if (WIFSIGNALED(status))
    bad_input(quoted(path, 4096), " is damaged: HDF5's library crashes when it reads it (",
              strsignal(WTERMSIG(status)), ")");
  else if (WEXITSTATUS(status) != 0)
    bad_input(quoted(path, 4096), " is damaged: HDF5's library damages memory when it reads it");
}

class File : public Hdf5File {
 public:
  explicit File(std::shared_ptr<OpenFile> file) : file_(std::move(file)) {}

  const std::string& name() const override { return file_->name; }
  bool contains(const std::string& path) const override;
  bool is_group(const std::string& path) const override;
  std::vector<std::string> names_in(const std::string& group) const override;
  std::unique_ptr<Hdf5Dataset> dataset(const std::string& path) const override {
    return std::make_unique<Dataset>(open_dataset(path));
  }
  std::string text(const std::string& path) const override;
  void make_group(const std::string& path) override;
  void write_text(const std::string& path, const std::string& text) override;
  void flush() override;
  std::string bytes() override;

 protected:
  void read_number_as(Hdf5Number type, const std::string& path, void* value) const override;
  void write_as(Hdf5Number type, const std::string& path, const std::vector<std::int64_t>& shape,
                const void* values) override;
  void append_rows_as(Hdf5Number type, const std::string& path, const std::vector<std::int64_t>& row,
                      std::uint64_t rows, const void* values) override;

 private:
  OpenDataset open_dataset(const std::string& path) const;
  std::shared_ptr<OpenFile> file_;
};

const char* name_of(H5T_class_t kind) {
  switch (kind) {
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "structures";
    case H5T_ENUM:
      return "an enumeration";
    default:
      return "another type";
  }
}

/// Chunks that are read again and again are kept: all of a dataset's if they are few, else the last ones.
Id cache_for_chunks(hid_t dataset) {
  const Id settings(H5Dget_create_plist(dataset), H5Pclose);
  if (H5Pget_layout(settings.get()) != H5D_CHUNKED) return {};
  const Id type(H5Dget_type(dataset), H5Tclose);
  hsize_t dims[H5S_MAX_RANK] = {};
  const int axes = H5Pget_chunk(settings.get(), H5S_MAX_RANK, dims);
  std::size_t chunk = H5Tget_size(type.get());
  for (int axis = 0; axis < axes; ++axis) chunk *= static_cast<std::size_t>(dims[axis]);
  constexpr std::size_t kCache = std::size_t{64} << 20, kSlots = 12421;
  Id access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.get(), kSlots, std::max(kCache, chunk), 1.0);
  return access;
}

/// What is stored of a dataset.
struct Stored {
  hsize_t bytes = 0;  ///< as the file says, but no more than there can be
  bool in_chunks = false;
};
Stored stored_of(hid_t file, hid_t dataset) {
  const Id settings(H5Dget_create_plist(dataset), H5Pclose);
  Stored stored{H5Dget_storage_size(dataset), H5Pget_layout(settings.get()) == H5D_CHUNKED};
  hsize_t all = 0;
  const bool elsewhere = H5Pget_external_count(settings.get()) > 0;
  if (!elsewhere && H5Fget_filesize(file, &all) >= 0) stored.bytes = std::min(stored.bytes, all);
  return stored;
}

/// A small file must not make anyone reserve a lot of memory: chunks may be compressed, by a factor of 1032
/// at most. What is not in chunks is whole, or the library would read beyond it.
bool can_be_stored(const Stored& stored, std::int64_t count, std::size_t size) {
  const double most = stored.in_chunks ? 1032 : 1;
  return static_cast<double>(count) * static_cast<double>(size) <= static_cast<double>(stored.bytes) * most;
}

/// Whether the bits of a number are within its bytes, and its parts within its bits. HDF5 1.10 does not ask
/// and reads what is beyond.
bool is_whole(hid_t type) {
  const std::size_t precision = H5Tget_precision(type);
  const int offset = H5Tget_offset(type);
  if (precision == 0 || offset < 0 || static_cast<std::size_t>(offset) + precision > 8 * H5Tget_size(type))
    return false;
  if (H5Tget_class(type) != H5T_FLOAT) return true;
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 &&
         sign < precision && exponent + exponent_bits <= precision && mantissa + mantissa_bits <= precision;
}

/// Every part of the path must be asked for by itself.
bool File::contains(const std::string& path) const {
  const Lock lock;
  for (std::size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (H5Lexists(file_->file.get(), part.c_str(), H5P_DEFAULT) <= 0 ||
        H5Oexists_by_name(file_->file.get(), part.c_str(), H5P_DEFAULT) <= 0)
      return false;
  }
  return true;
}

bool File::is_group(const std::string& path) const {
  const Lock lock;
  const Id object(H5Oopen(file_->file.get(), path.empty() ? "/" : path.c_str(), H5P_DEFAULT), H5Oclose);
  return object && H5Iget_type(object.get()) == H5I_GROUP;
}

std::vector<std::string> File::names_in(const std::string& group) const {
  const Lock lock;
  const Id opened(H5Gopen2(file_->file.get(), group.empty() ? "/" : group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!opened) file_->fail("open the group", group, reason());
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  if (H5Literate(opened.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names) < 0)
    file_->fail("list the group", group, reason());
  return names;
}

OpenDataset File::open_dataset(const std::string& path) const {
  const Lock lock;
  const auto refuse = [&](const std::string& why) {
    bad_input(file_->name, ", dataset ", quoted(path), ": ", why);
  };
  if (!contains(path)) {
    const std::size_t slash = path.rfind('/');
    const std::string group = slash == std::string::npos ? "" : path.substr(0, slash);
    const bool listed = group.empty() || contains(group);
    refuse(cat("is missing", listed ? did_you_mean(path, names_in(group)) : ""));
  }
  OpenDataset set;
  set.file = file_;
  set.path = path;
  if (is_group(path)) refuse("expected a dataset, found a group");
  set.id = Id(H5Dopen2(file_->file.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.id) refuse(cat("cannot be opened: ", reason()));
  const Id type(H5Dget_type(set.id.get()), H5Tclose), space(H5Dget_space(set.id.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) refuse(cat("expected numbers, found ", name_of(kind)));
  if (!is_whole(type.get())) refuse("the type of its numbers is damaged");
  const std::size_t size = H5Tget_size(type.get());
  set.is_double = kind == H5T_FLOAT && size > sizeof(float);
  const int axes = H5Sget_simple_extent_ndims(space.get());
  if (axes < 0 || H5Sget_simple_extent_type(space.get()) == H5S_NULL) refuse("it holds nothing");
  std::vector<hsize_t> dims(static_cast<std::size_t>(axes));
  if (axes > 0) H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  for (const hsize_t dim : dims) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (dim > static_cast<hsize_t>(kMost) || (dim > 0 && set.count > kMost / static_cast<std::int64_t>(dim)))
      refuse("its shape is too large");
    set.shape.push_back(static_cast<std::int64_t>(dim));
    set.count *= static_cast<std::int64_t>(dim);
  }
  const Stored stored = stored_of(file_->file.get(), set.id.get());
  if (!can_be_stored(stored, set.count, size))
    refuse(cat("its shape is ", shape_text(set.shape), ", but only ", stored.bytes,
               " bytes of values are stored"));
  if (const Id access = cache_for_chunks(set.id.get()); access) {
    set.id = Id();  // the cache is that of the first who opens it
    set.id = Id(H5Dopen2(file_->file.get(), path.c_str(), access.get()), H5Dclose);
    if (!set.id) refuse(cat("cannot be opened: ", reason()));
  }
  return set;
}

std::string File::text(const std::string& path) const {
  const Lock lock;
  const Id id(contains(path) ? H5Dopen2(file_->file.get(), path.c_str(), H5P_DEFAULT) : hid_t{-1}, H5Dclose);
  if (!id) file_->fail("find the text", path, "it is missing");
  const Id type(H5Dget_type(id.get()), H5Tclose), space(H5Dget_space(id.get()), H5Sclose);
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1)
    file_->fail("read", path, "expected one text");
  if (H5Tis_variable_str(type.get()) > 0) {  // as h5py writes it
    char* text = nullptr;
    const Id memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory.get(), H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(type.get()));
    if (H5Dread(id.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) < 0 || text == nullptr)
      file_->fail("read", path, reason());
    std::string copy = text;
    H5free_memory(text);
    return copy;
  }
  constexpr std::size_t kMost = 1 << 16;
  const std::size_t size = H5Tget_size(type.get());
  if (size > kMost) file_->fail("read", path, cat("the text has ", size, " bytes"));
  std::string text(size, '\0');
  if (H5Dread(id.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0)
    file_->fail("read", path, reason());
  return text.substr(0, text.find('\0'));
}

void File::read_number_as(Hdf5Number type, const std::string& path, void* value) const {
  const Lock lock;
  const OpenDataset one = open_dataset(path);
  if (one.count != 1) file_->fail("read", path, cat("expected one number, found ", one.count));
  read_all(one, type, value);
}

void File::make_group(const std::string& path) {
  const Lock lock;
  if (contains(path) && is_group(path)) return;
  const Id group(
      H5Gcreate2(file_->file.get(), path.c_str(), links_with_groups().get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Gclose);
  if (!group) file_->fail("make the group", path, reason());
}

void File::write_as(Hdf5Number type, const std::string& path, const std::vector<std::int64_t>& shape,
                    const void* values) {
  const Lock lock;
  const Id space = make_space(shape);
  const Id set(H5Dcreate2(file_->file.get(), path.c_str(), type_in_memory(type), space.get(),
                          links_with_groups().get(), new_dataset_settings().get(), H5P_DEFAULT),
               H5Dclose);
  if (!set) file_->fail("make the dataset", path, reason());
  if (std::count(shape.begin(), shape.end(), 0) == 0 &&
      H5Dwrite(set.get(), type_in_memory(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
    file_->fail("write", path, reason());
}

void File::write_text(const std::string& path, const std::string& text) {
  const Lock lock;
  const Id type(H5Tcopy(H5T_C_S1), H5Tclose), space = make_space({});
  H5Tset_size(type.get(), text.size() + 1);
  const Id set(H5Dcreate2(file_->file.get(), path.c_str(), type.get(), space.get(), links_with_groups().get(),
                          new_dataset_settings().get(), H5P_DEFAULT),
               H5Dclose);
  if (!set || H5Dwrite(set.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()) < 0)
    file_->fail("write", path, reason());
}

void File::append_rows_as(Hdf5Number type, const std::string& path, const std::vector<std::int64_t>& row,
                          std::uint64_t rows, const void* values) {
  const Lock lock;
  std::vector<hsize_t> sizes = dims_of(row), begin(row.size() + 1, 0);
  sizes.insert(sizes.begin(), rows);
  Id set;
  if (!contains(path)) {
    std::vector<hsize_t> none = sizes, most = sizes, chunk = sizes;
    none[0] = 0;
    most[0] = H5S_UNLIMITED;
    std::size_t row_bytes = size_in_memory(type);
    for (const std::int64_t axis : row)
      row_bytes *= static_cast<std::size_t>(std::max<std::int64_t>(axis, 1));
    // Chunks must have an extent on every axis and less than 4 GiB; a MiB is read and written well.
    chunk[0] = std::clamp<hsize_t>((std::size_t{1} << 20) / row_bytes, 1, 4096);
    for (hsize_t& axis : chunk) axis = std::max<hsize_t>(axis, 1);
    const Id space(H5Screate_simple(static_cast<int>(none.size()), none.data(), most.data()), H5Sclose);
    const Id settings = new_dataset_settings();
    H5Pset_chunk(settings.get(), static_cast<int>(chunk.size()), chunk.data());
    set = Id(H5Dcreate2(file_->file.get(), path.c_str(), type_in_memory(type), space.get(),
                        links_with_groups().get(), settings.get(), H5P_DEFAULT),
             H5Dclose);
    if (!set) file_->fail("make the dataset", path, reason());
  } else {
    set = Id(H5Dopen2(file_->file.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
    if (!set) file_->fail("open", path, reason());
  }
  std::vector<hsize_t> all(sizes.size());
  const Id before(H5Dget_space(set.get()), H5Sclose);
  if (H5Sget_simple_extent_ndims(before.get()) != static_cast<int>(all.size()))
    file_->fail("append to", path, "its rows have another number of axes");
  H5Sget_simple_extent_dims(before.get(), all.data(), nullptr);
  if (!std::equal(all.begin() + 1, all.end(), sizes.begin() + 1))
    file_->fail("append to", path,
                cat("expected rows of shape ", shape_text({all.begin() + 1, all.end()}), ", found ",
                    shape_text(row)));
  begin[0] = all[0];
  all[0] += rows;
  if (H5Dset_extent(set.get(), all.data()) < 0) file_->fail("append to", path, reason());
  if (std::count(sizes.begin(), sizes.end(), hsize_t{0}) > 0) return;
  const Id after(H5Dget_space(set.get()), H5Sclose);
  const Id part(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(after.get(), H5S_SELECT_SET, begin.data(), nullptr, sizes.data(), nullptr) < 0 ||
      H5Dwrite(set.get(), type_in_memory(type), part.get(), after.get(), H5P_DEFAULT, values) < 0)
    file_->fail("append to", path, reason());
}

void File::flush() {
  const Lock lock;
  if (H5Fflush(file_->file.get(), H5F_SCOPE_GLOBAL) < 0) file_->fail("flush", "", reason());
}

std::string File::bytes() {
  const Lock lock;
  flush();
  const ssize_t size = H5Fget_file_image(file_->file.get(), nullptr, 0);
  if (size < 0) file_->fail("take the contents", "", reason());
  std::string image(static_cast<std::size_t>(size), '\0');
  if (H5Fget_file_image(file_->file.get(), image.data(), image.size()) < 0)
    file_->fail("take the contents", "", reason());
  return image;
}

std::unique_ptr<Hdf5File> open(const std::string& path) {
  const Lock lock;
  auto file = std::make_shared<OpenFile>();
  file->name = quoted(path, 4096);
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), false, true);  // many file systems have none, and nothing is written
#endif
  if (!std::ifstream(path)) bad_input("cannot open ", file->name, ": ", std::strerror(errno));
  if (!looks_like_hdf5(path) && H5Fis_hdf5(path.c_str()) <= 0)
    bad_input(file->name, " is no HDF5 file, or its beginning is missing");
  file->file = Id(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file->file) bad_input(file->name, " cannot be opened as an HDF5 file: ", reason());
  return std::make_unique<File>(file);
}

std::unique_ptr<Hdf5File> create(const std::string& path) {
  const Lock lock;
  auto file = std::make_shared<OpenFile>();
  file->name = quoted(path, 4096);
  file->writing = true;
  file->file = Id(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (!file->file) runtime_failure("cannot create ", file->name, ": ", reason());
  return std::make_unique<File>(file);
}

std::unique_ptr<Hdf5File> create_in_memory(const std::string& name) {
  const Lock lock;
  auto file = std::make_shared<OpenFile>();
  file->name = quoted(name, 4096);
  file->writing = true;
  const Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  constexpr std::size_t kGrowth = std::size_t{16} << 20;
  H5Pset_fapl_core(access.get(), kGrowth, false);
  file->file = Id(H5Fcreate("banyan", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  if (!file->file) runtime_failure("cannot make the contents of ", file->name, ": ", reason());
  return std::make_unique<File>(file);
}

constexpr Hdf5Backend kTable{Hdf5Backend::kVersion, &open, &create, &create_in_memory, &rehearse};

}  // namespace
}  // namespace banyan::io

extern "C" const banyan::io::Hdf5Backend* banyan_hdf5_backend() { return &banyan::io::kTable; }
