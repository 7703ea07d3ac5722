#include "banyan/data/record_check.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan::data {
namespace {

constexpr std::size_t kMostComplaints = 5;

/// Reads records and makes items of them, in memory of its own.
class Maker {
 public:
  explicit Maker(const InputPipeline& pipeline) : pipeline_(pipeline), reader_(pipeline.source->reader()) {}

  void make(std::uint64_t position, std::uint64_t item) {
    read_record(*reader_, position, record_, item);
    try {
      shapes_ = pipeline_.writer->shapes(record_, item);
      ItemPlace place{pipeline_.assembly.dtype, pipeline_.assembly.layout, {}, 0, &rows_};
      rows_.clear();
      memory_.resize(shapes_.size());
      for (std::size_t k = 0; k < shapes_.size(); ++k) {
        memory_[k].resize(static_cast<std::size_t>(shapes_[k].count()) * size_of(pipeline_.assembly.dtype));
        place.outputs.push_back(memory_[k].data());
      }
      pipeline_.writer->write(record_, item, place);
    } catch (const Error& error) {
      throw Error(error.kind(), describe(position) + ": " + error.message());
    }
  }
  std::string describe(std::uint64_t position) { return reader_->describe(position); }
  std::size_t stored_bytes() const { return record_.stored.size(); }
  const std::vector<Shape>& shapes() const { return shapes_; }
  double value(std::size_t output, std::int64_t element) const {
    const auto* memory = memory_.at(output).data();
    double value = 0;
    dispatch_float(pipeline_.assembly.dtype, "a data layer", [&]<class T>() {
      value = static_cast<double>(reinterpret_cast<const T*>(memory)[element]);
    });
    return value;
  }

 private:
  const InputPipeline& pipeline_;
  std::unique_ptr<RecordReader> reader_;
  Record record_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<double> rows_;
};

void look_at_labels(Maker& maker, std::uint64_t position, const ClassOutput& asked, LabelCheck& found) {
  if (asked.output >= maker.shapes().size()) return;
  const std::int64_t count = maker.shapes()[asked.output].count();
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = maker.value(asked.output, i);
    if (std::find(asked.ignored.begin(), asked.ignored.end(), value) != asked.ignored.end()) continue;
    found.least = found.values == 0 ? value : std::min(found.least, value);
    found.most = found.values == 0 ? value : std::max(found.most, value);
    ++found.values;
    if (found.counts.size() < LabelCheck::kMostCounted || found.counts.contains(value)) ++found.counts[value];
    if (value >= 0 && value < static_cast<double>(asked.classes) && value == std::floor(value)) continue;
    if (found.outside++ == 0) found.first_outside = cat(maker.describe(position), ": ", value);
  }
}

void merge(const LabelCheck& from, LabelCheck& to) {
  if (from.values == 0) return;
  to.least = to.values == 0 ? from.least : std::min(to.least, from.least);
  to.most = to.values == 0 ? from.most : std::max(to.most, from.most);
  to.values += from.values;
  if (to.outside == 0) to.first_outside = from.first_outside;
  to.outside += from.outside;
  for (const auto& [value, count] : from.counts) to.counts[value] += count;
}

/// The part `from` follows on `to` in the data set.
void merge(const InputPipeline& pipeline, const RecordCheck& from, RecordCheck& to) {
  to.looked_at += from.looked_at;
  to.unusable += from.unusable;
  to.bytes += from.bytes;
  for (const std::string& complaint : from.complaints)
    if (to.complaints.size() < kMostComplaints) to.complaints.push_back(complaint);
  if (to.item.empty()) {
    to.item = from.item;
    to.other_item = from.other_item;
  } else if (to.other_item.empty()) {
    const bool same = from.item.empty() || from.item == to.item;
    to.other_item = same ? from.other_item : pipeline.source->name() + ": " + item_text(from.item[0]);
  }
  for (std::size_t k = 0; k < from.labels.size(); ++k) merge(from.labels[k], to.labels[k]);
}

/// Records number `first` to `last` of those that are looked at.
RecordCheck check_part(const InputPipeline& pipeline, const RecordCheckOptions& options, std::uint64_t all,
                       std::uint64_t first, std::uint64_t last) {
  RecordCheck check;
  check.labels.resize(options.labels.size());
  Maker maker(pipeline);
  const std::uint64_t records = pipeline.source->size();
  for (std::uint64_t i = first; i < last && !(options.stop && options.stop()); ++i) {
    // The first and the last one are among them.
    const std::uint64_t position =
        all < 2
            ? 0
            : static_cast<std::uint64_t>(std::llround(
                  static_cast<double>(i) * static_cast<double>(records - 1) / static_cast<double>(all - 1)));
    ++check.looked_at;
    try {
      maker.make(position, position);
    } catch (const Error& error) {
      ++check.unusable;
      if (check.complaints.size() < kMostComplaints) check.complaints.push_back(error.message());
      continue;
    }
    check.bytes += maker.stored_bytes();
    if (check.item.empty()) check.item = maker.shapes();
    if (check.other_item.empty() && maker.shapes() != check.item)
      check.other_item = maker.describe(position) + ": " + item_text(maker.shapes()[0]);
    for (std::size_t k = 0; k < options.labels.size(); ++k)
      look_at_labels(maker, position, options.labels[k], check.labels[k]);
  }
  return check;
}

}  // namespace

RecordCheck check_records(const InputPipeline& pipeline, const RecordCheckOptions& options) {
  RecordCheck check;
  check.records = pipeline.source->size();
  check.labels.resize(options.labels.size());
  const std::uint64_t all = options.most == 0 ? check.records : std::min(check.records, options.most);
  const auto threads = static_cast<std::uint64_t>(std::max(1, options.threads));
  // A thread's failure (its reader cannot be opened) is that of the whole.
  std::vector<RecordCheck> parts(threads);
  std::vector<std::exception_ptr> failures(threads);
  {
    std::vector<std::jthread> workers;
    for (std::uint64_t t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        try {
          parts[t] = check_part(pipeline, options, all, all * t / threads, all * (t + 1) / threads);
        } catch (...) {
          failures[t] = std::current_exception();
        }
      });
  }
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
  for (const RecordCheck& part : parts) merge(pipeline, part, check);
  return check;
}

std::vector<double> first_values(const InputPipeline& pipeline, std::size_t output, std::uint64_t items) {
  std::vector<double> values;
  Maker maker(pipeline);
  for (std::uint64_t item = 0; item < std::min(items, pipeline.source->size()); ++item) {
    maker.make(pipeline.order->record(0, item), item);
    if (output < maker.shapes().size() && maker.shapes()[output].count() > 0)
      values.push_back(maker.value(output, 0));
  }
  return values;
}

}  // namespace banyan::data
