#include "banyan/data/shared_batches.hpp"

#include <utility>

#include "banyan/base/error.hpp"

namespace banyan::data {
namespace {

thread_local const SharingScope* current_scope = nullptr;

class SourceElsewhere : public RecordSource {
 public:
  explicit SourceElsewhere(const OfferedSource& offered) : offered_(offered) {}
  std::uint64_t size() const override { return offered_.records; }
  std::vector<std::uint64_t> parts() const override { return offered_.parts; }
  std::string name() const override { return offered_.name + " of process 0"; }
  std::unique_ptr<RecordReader> reader() const override {
    runtime_failure(name(), " cannot be read in this process");
  }

 private:
  OfferedSource offered_;
};

class WriterElsewhere : public ItemWriter {
 public:
  explicit WriterElsewhere(const OfferedSource& offered) : offered_(offered) {}
  std::vector<Shape> shapes(const Record&, std::uint64_t) const override { return offered_.item; }
  std::int64_t row_length() const override { return offered_.row_length; }
  void write(const Record&, std::uint64_t, const ItemPlace&) const override {
    runtime_failure(offered_.name, " cannot be read in this process");
  }

 private:
  OfferedSource offered_;
};

}  // namespace

SharingScope::SharingScope(std::shared_ptr<SharedBatches> shared, std::string net, const void* run)
    : shared_(std::move(shared)),
      net_(std::move(net)),
      run_(run),
      outer_(std::exchange(current_scope, this)) {}
SharingScope::~SharingScope() { current_scope = outer_; }
const SharingScope* SharingScope::current() { return current_scope; }

std::shared_ptr<RecordSource> source_elsewhere(const OfferedSource& offered) {
  return std::make_shared<SourceElsewhere>(offered);
}
std::shared_ptr<const ItemWriter> writer_elsewhere(const OfferedSource& offered) {
  return std::make_shared<WriterElsewhere>(offered);
}

}  // namespace banyan::data
