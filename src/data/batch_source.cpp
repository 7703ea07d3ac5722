#include "banyan/data/batch_source.hpp"

namespace banyan::data {

std::unique_ptr<Prefetcher> InputPipeline::start(Device& device, const ShareSequence& shares) const {
  if (elsewhere) return std::make_unique<Prefetcher>(device, shares, elsewhere, prefetch);
  // The threads own copies of everything they use.
  const auto make_fill = [pipeline = *this](const std::shared_ptr<HostMemory>& memory) -> Prefetcher::Fill {
    auto assembler = std::make_shared<BatchAssembler>(memory, pipeline.dealing, pipeline.source,
                                                      pipeline.order, pipeline.writer, pipeline.assembly);
    return [assembler](HostBatch& batch) { (*assembler)(batch); };
  };
  return std::make_unique<Prefetcher>(device, shares, make_fill, prefetch);
}

}  // namespace banyan::data
