#include "banyan/data/hdf5_source.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <sstream>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"
#include "banyan/io/weights.hpp"
#include "io/hdf5_file.hpp"

namespace banyan::data {

namespace {

std::vector<std::string> read_list(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 28;
  std::istringstream words(io::read_file(path, kMost));
  std::vector<std::string> files;
  for (std::string file; words >> file;) files.push_back(file);
  if (files.empty()) bad_input("the list ", banyan::quoted(path), " names no HDF5 files");
  return files;
}

/// The datasets of one file.
struct OpenFile {
  std::uint64_t index = 0, rows = 0;
  std::vector<std::unique_ptr<io::Hdf5Dataset>> datasets;
  std::vector<std::vector<double>> values;  ///< of all datasets, which are then closed; or empty

  /// If they take at most `most` bytes. A row costs several calls of HDF5, one at a time in the process.
  void take_into_memory(std::uint64_t most) {
    std::uint64_t bytes = 0;
    for (const auto& dataset : datasets)
      bytes += static_cast<std::uint64_t>(dataset->count()) * sizeof(double);
    if (bytes > most) return;
    try {
      for (const auto& dataset : datasets) values.push_back(dataset->values<double>());
      datasets.clear();  // closes the file
    } catch (const Error&) {
      values.clear();  // rows are read one by one, and the damaged one is named
    }
  }
};

class Hdf5Source : public RowSource, public std::enable_shared_from_this<Hdf5Source> {
 public:
  Hdf5Source(const std::string& path, std::vector<std::string> datasets, std::uint64_t largest_in_memory)
      : path_(path),
        names_(std::move(datasets)),
        files_(read_list(path)),
        largest_in_memory_(largest_in_memory) {
    for (std::size_t i = 0; i < files_.size(); ++i) {
      io::rehearse_hdf5(files_[i], [&] { open(i); });
      const std::shared_ptr<const OpenFile> file = open(i);
      if (i == 0)
        for (const auto& dataset : file->datasets)
          rows_.emplace_back(std::vector(dataset->shape().begin() + 1, dataset->shape().end()));
      check_rows(*file);
      sizes_.push_back(file->rows);
    }
    ends_.resize(sizes_.size());
    std::partial_sum(sizes_.begin(), sizes_.end(), ends_.begin());
    if (size() == 0) bad_input(name(), ": its files hold no rows");
  }

  std::uint64_t size() const override { return ends_.back(); }
  std::vector<std::uint64_t> parts() const override { return sizes_; }
  std::string name() const override { return "HDF5 list " + banyan::quoted(path_); }
  const std::vector<Shape>& rows() const override { return rows_; }
  std::unique_ptr<RecordReader> reader() const override;

  /// The file that holds a row, and the number of the row in it.
  std::pair<std::size_t, std::uint64_t> place_of(std::uint64_t position) const {
    const auto file = std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin();
    return {static_cast<std::size_t>(file), position - (ends_[file] - sizes_[file])};
  }
  const std::string& file_name(std::size_t file) const { return files_[file]; }

  /// As long as the readers stay within a few files, each of them is opened once for all.
  std::shared_ptr<const OpenFile> file(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(open_.begin(), open_.end(), [&](const auto& file) { return file->index == index; });
    if (found != open_.end()) return *found;
    const std::shared_ptr<OpenFile> opened = open(index);
    if (opened->rows != sizes_[index])
      bad_input(banyan::quoted(files_[index]), " has changed: it had ", sizes_[index],
                " rows when training began, and has ", opened->rows);
    check_rows(*opened);
    opened->take_into_memory(largest_in_memory_);
    constexpr std::size_t kKept = 4;
    if (open_.size() == kKept) open_.pop_front();
    open_.push_back(opened);
    return opened;
  }

 private:
  std::shared_ptr<OpenFile> open(std::size_t index) const {
    const std::unique_ptr<io::Hdf5File> file = io::Hdf5File::open(files_[index]);
    auto opened = std::make_shared<OpenFile>();
    opened->index = index;
    for (const std::string& name : names_) {
      opened->datasets.push_back(file->dataset(name));
      const std::vector<std::int64_t>& shape = opened->datasets.back()->shape();
      if (shape.empty())
        bad_input(file->name(), ", dataset ", banyan::quoted(name),
                  ": expected rows along its first axis, found a single value");
      const auto rows = static_cast<std::uint64_t>(shape[0]);
      if (opened->datasets.size() == 1) opened->rows = rows;
      if (rows != opened->rows)
        bad_input(file->name(), ", dataset ", banyan::quoted(name), ": expected ", opened->rows,
                  " rows, as many as in dataset ", banyan::quoted(names_[0]), ", found ", rows);
    }
    return opened;
  }

  void check_rows(const OpenFile& file) const {
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const std::vector<std::int64_t>& shape = file.datasets[k]->shape();
      const std::vector<std::int64_t> row(shape.begin() + 1, shape.end());
      if (row != rows_[k].dims())
        bad_input(banyan::quoted(files_[file.index]), ", dataset ", banyan::quoted(names_[k]),
                  ": expected rows of shape ", io::shape_text(rows_[k].dims()), " as in ",
                  banyan::quoted(files_[0]), ", found ", io::shape_text(row));
    }
  }

  std::string path_;
  std::vector<std::string> names_, files_;
  std::vector<Shape> rows_;
  std::vector<std::uint64_t> sizes_, ends_;  // rows of each file; rows up to its end
  std::uint64_t largest_in_memory_;
  mutable std::mutex mutex_;
  mutable std::deque<std::shared_ptr<const OpenFile>> open_;
};

class Hdf5Reader : public RecordReader {
 public:
  explicit Hdf5Reader(std::shared_ptr<const Hdf5Source> source) : source_(std::move(source)) {}

  void fetch(std::uint64_t position, Record& record) override {
    const auto [index, row] = source_->place_of(position);
    if (!file_ || file_->index != index) file_ = source_->file(index);
    std::size_t count = 0, next = 0;
    for (const Shape& shape : source_->rows()) count += static_cast<std::size_t>(shape.count());
    record.numbers.resize(count);
    for (std::size_t k = 0; k < source_->rows().size(); ++k) {
      const auto length = static_cast<std::size_t>(source_->rows()[k].count());
      if (file_->values.empty())
        file_->datasets[k]->read_rows(row, 1, record.numbers.data() + next);
      else
        std::copy_n(file_->values[k].data() + row * length, length, record.numbers.data() + next);
      next += length;
    }
    record.stored = {reinterpret_cast<const char*>(record.numbers.data()), count * sizeof(double)};
  }
  void decode(Record&) override {}
  std::string describe(std::uint64_t position) override {
    const auto [index, row] = source_->place_of(position);
    return cat(source_->name(), ", row ", row, " (counted from 0) of ",
               banyan::quoted(source_->file_name(index)));
  }

 private:
  std::shared_ptr<const Hdf5Source> source_;
  std::shared_ptr<const OpenFile> file_;
};

std::unique_ptr<RecordReader> Hdf5Source::reader() const {
  return std::make_unique<Hdf5Reader>(shared_from_this());
}

}  // namespace

std::shared_ptr<RowSource> open_hdf5_list(const std::string& path, const std::vector<std::string>& datasets,
                                          std::uint64_t largest_in_memory) {
  struct Registry {
    std::mutex mutex;
    std::map<std::vector<std::string>, std::weak_ptr<Hdf5Source>> open;
  };
  static Registry registry;
  std::vector<std::string> key = datasets;
  key.push_back(path);
  key.push_back(std::to_string(largest_in_memory));
  const std::lock_guard lock(registry.mutex);
  auto& entry = registry.open[key];
  auto source = entry.lock();
  if (!source) {
    io::require_hdf5("the list " + banyan::quoted(path));
    source = std::make_shared<Hdf5Source>(path, datasets, largest_in_memory);
    entry = source;
  }
  return source;
}

void RowWriter::write(const Record& record, std::uint64_t, const ItemPlace& place) const {
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    const double* from = record.numbers.data();
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const double* const end = from + rows_[k].count();
      std::transform(from, end, static_cast<T*>(place.outputs[k]),
                     [](double x) { return static_cast<T>(x); });
      from = end;
    }
  });
}

}  // namespace banyan::data
