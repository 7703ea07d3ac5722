// Rows of HDF5 files, as the HDF5Data layer reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"

namespace banyan::data {

/// Record i is row i, counted through all files, of each of its datasets.
class RowSource : public RecordSource {
 public:
  /// Shapes of a row, one per dataset.
  virtual const std::vector<Shape>& rows() const = 0;
};

/// `path`: a file that holds the names of HDF5 files, separated by whitespace. Each must hold all `datasets`,
/// of numbers of any type, with the same number of rows (the first axis) in all of them, and rows of the same
/// shape in all files. Opens every file once to look at that. A handful of files is open at a time: their
/// values are held in memory if they take at most `largest_in_memory` bytes per file, as f64; of larger files
/// only the rows that are needed are read. All sources of a process on the same list and datasets are one.
/// Throws bad_input with the file, the dataset, what was found and what was expected.
std::shared_ptr<RowSource> open_hdf5_list(const std::string& path, const std::vector<std::string>& datasets,
                                          std::uint64_t largest_in_memory = std::uint64_t{256} << 20);

/// One output for each of a row's datasets, with its values as they are.
class RowWriter : public ItemWriter {
 public:
  explicit RowWriter(std::vector<Shape> rows) : rows_(std::move(rows)) {}
  std::vector<Shape> shapes(const Record&, std::uint64_t) const override { return rows_; }
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  std::vector<Shape> rows_;
};

}  // namespace banyan::data
