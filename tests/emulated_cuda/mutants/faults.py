"""The faults of mutants.py."""
import dataclasses
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    file: str       # where the fault is
    replace: tuple  # (old, new), ...
    units: tuple    # the sources to recompile; the first may be trimmed
    test: tuple     # (program and arguments, settings of the emulated machine)
    trim: tuple = ()
    library: str = "libbanyan_cuda.so"


def gpu_tests(names, settings="gpus=2"):
    return ("gpu_tests", "--gtest_brief=1", "--gtest_fail_fast", "--gtest_filter=" + names), settings + ",notes=0,leaks=0"


def training(devices="0,1", settings="gpus=2"):
    return ("trainer", "--solver=SOLVER", "--gpu=" + devices), settings + ",notes=0,leaks=0"


BACKEND = "src/ops/cuda/cuda_backend.cuh"
TRANSPOSE = "src/ops/cuda/transpose.cuh"
HANDLES = "src/ops/cuda/handles.cpp"
CONVOLUTION = "src/ops/cuda/convolution.cpp"
COLUMNS = "src/ops/cuda/convolution_columns.cu"
DEVICE = "src/device/cuda/cuda_device.cpp"
TABLE = "src/device/cuda/cuda_backend.cpp"
NORMALIZATION_UNIT = "src/ops/cuda/normalization.cu"
HOST_COPY = "src/tensor/host_copy.cpp"
PIPE = "src/parallel/pipe.cpp"
UPLINK = "src/parallel/device_uplink.cpp"
GRADIENTS = "src/parallel/gradient_sync.cpp"

MOMENTS = gpu_tests("*NormalizationTest.MomentsOfEveryShapeAndLayout/cuda_f32")
NORMALIZATION = gpu_tests("*NormalizationTest.ForwardAndBackwardMatchFormulas/cuda_f32")
LRN = gpu_tests("*LrnTest.*/cuda_f32")
LAYOUTS = gpu_tests("*Basic.CopiesBetweenLayouts/cuda_f32")
POOLING = gpu_tests("*PoolingTest.*/cuda_f32")
CONVOLUTIONS = gpu_tests("*ConvolutionTest.ForwardMatchesNaiveLoops/cuda_f32")
STAGED_CONVOLUTIONS = gpu_tests("*ConvolutionTest.ForwardMatchesNaiveLoops/cuda_f32", "gpus=1,cudnn=contiguous")
GRADIENTS_OF_CONVOLUTIONS = gpu_tests("*ConvolutionTest.Backward*/cuda_f32")
STREAMS = gpu_tests("CudaStreams.Copies*:CudaStreams.Replicas*")
TF32 = gpu_tests("Tf32.*RoundTheirFactors")
PRODUCTS_IN_16_BITS = gpu_tests("Layouts/Bf16Storage.Products/*")
CONVOLUTIONS_IN_16_BITS = gpu_tests("Layouts/Bf16Storage.*OfWeights*:Layouts/Bf16Storage.WeightsOfConvolutions*")
ODD_PLACES = gpu_tests("Layouts/Bf16Storage.TensorsMayBeginAnywhere/*")
PRODUCTS = gpu_tests("*Gemm.ZeroBetaIgnoresTheTarget/cuda_f32")
UPDATES = gpu_tests("*Update.Sgd/cuda_f32")
NARROW = gpu_tests("NcclTraining.SixteenBitsOfTwoGpusAreThoseOfTheHost")
PACKED = gpu_tests("*Narrow.*/cuda_f32")
ONE, TWO = training("0"), training("0,1")
ONE_TWICE = training("0,0")

# What a test does not use would take most of the compile time.
_NORMALIZATION = (pathlib.Path(__file__).resolve().parents[3] / NORMALIZATION_UNIT).read_text()


def only_operators(*names):
    return tuple((line + ";", "") for line in _NORMALIZATION.split(";\n")
                 if line.startswith("const Define ") and not any(f"define_{name}(" in line for name in names))


ONLY_F32 = (("namespace {\n", "namespace {\ntemplate <class Body> void in_f32(const Body& body) { body.template operator()<float>(); }\n"),) + tuple(
    (dispatch, "in_f32(") for dispatch in re.findall(r"dispatch_storage\([^,]+, \"\w+\", ", _NORMALIZATION))
ONLY_MOMENTS = only_operators("batch_moments") + ONLY_F32
ONLY_PASSES = only_operators("batch_moments", "finish_moments", "normalize_forward", "normalize_backward_sums", "normalize_backward") + ONLY_F32


def reduction(name, *replace):
    return Mutant(name, BACKEND, replace, (NORMALIZATION_UNIT,), MOMENTS, ONLY_MOMENTS)


def passes(name, *replace):
    return Mutant(name, BACKEND, replace, (NORMALIZATION_UNIT,), NORMALIZATION, ONLY_PASSES)


def kernel(name, unit, test, *replace):
    return Mutant(name, BACKEND, replace, (unit,), test)


def transposition(name, *replace, test=LAYOUTS):
    return Mutant(name, TRANSPOSE, replace, ("src/ops/cuda/transpose.cu",), test)


def host(name, file, test, *replace):
    return Mutant(name, file, replace, (file,), test)


def of_libbanyan(name, file, test, *replace):
    return Mutant(name, file, replace, (file,), test, library="libbanyan.so")


TREE_LEVELS = """    if (rank < rest) {
      for (int half = first_half; half >= rest; half /= 2)
        for (int i = 0; i < half; i += rest) r.merge(mine[i * stride], mine[(i + half) * stride]);
    }
"""
TREE_BARRIER = "    if (rest > 1) __syncthreads();\n"
PACK_AND_SEND = """    ops::pack_narrow(merging.context, merging.message, narrow, ops::kAllOwners, packed);
    exchange(merging, up);
"""
TILE_BARRIERS = """    __syncthreads();
    for (int j = static_cast<int>(threadIdx.y); j < kTile; j += kTileRows) {
      const std::int64_t row = first_row + threadIdx.x, column = first_column + j;
"""

MUTANTS = [
    # barriers
    reduction("merge_tree: no barrier before the tree", ("  __syncthreads();\n  for (int rest", "  for (int rest")),
    reduction("merge_tree: no barrier between its levels",
              (TREE_LEVELS + TREE_BARRIER, TREE_LEVELS)),
    reduction("merge_tree: barrier in a branch",
              (TREE_LEVELS + TREE_BARRIER, TREE_LEVELS.replace("    }\n", "  " + TREE_BARRIER + "    }\n"))),
    transposition("transposition: no barrier before the tile is read", (TILE_BARRIERS, TILE_BARRIERS.replace("    __syncthreads();\n", ""))),
    transposition("transposition: no barrier before the next tile",
                  ("      }\n    }\n    __syncthreads();\n  }\n", "      }\n    }\n  }\n"),
                  ("std::min<std::int64_t>(tiles, 1 << 16)", "std::min<std::int64_t>(tiles, 1)"), test=STAGED_CONVOLUTIONS),
    # indices
    kernel("for_each: one element too many", "src/ops/cuda/lrn.cu", LRN,
           ("+ threadIdx.x; i < n; i += step)\n    f(i);", "+ threadIdx.x; i <= n; i += step)\n    f(i);")),
    kernel("for_each: one element too few", "src/ops/cuda/lrn.cu", LRN,
           ("+ threadIdx.x; i < n; i += step)\n    f(i);", "+ threadIdx.x; i < n - 1; i += step)\n    f(i);")),
    kernel("for_each: the step is one too short", "src/ops/cuda/lrn.cu", LRN,
           ("const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;\n  for (std::int64_t i",
            "const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads - 1;\n  for (std::int64_t i"),
           ("(n + kernels::kThreads - 1) / kernels::kThreads, kMostBlocks", "(n + kernels::kThreads - 1) / kernels::kThreads, 1")),
    kernel("for_each_made: one element too many", "src/ops/cuda/update.cu", UPDATES,
           ("for (; i < n; i += static_cast<std::int64_t>(gridDim.x) * kThreads) f(i);",
            "for (; i <= n; i += static_cast<std::int64_t>(gridDim.x) * kThreads) f(i);")),
    reduction("a reduction's partial states share a slot", ("partial[blockIdx.y * over.dim + d] = *mine", "partial[d] = *mine")),
    reduction("a merge reads one slice too many", ("slice < slices; slice += kMergeThreads", "slice <= slices; slice += kMergeThreads")),
    reduction("a merge leaves out the first slice", ("slice = threadIdx.x; slice < slices", "slice = threadIdx.x + 1; slice < slices")),
    reduction("columns: the last one is left out", ("  if (d < dim) {\n    in_batches", "  if (d < dim - 1) {\n    in_batches")),
    reduction("runs: the row of channels is one too long",
              ("(static_cast<std::int64_t>(outer) * over.dim + d) * over.inner +\n", "(static_cast<std::int64_t>(outer) * (over.dim + 1) + d) * over.inner +\n")),
    reduction("a batch of elements begins too late", ("i + (kLoadsAtOnce - 1) * step < end; i += kLoadsAtOnce * step)\n    for", "i + (kLoadsAtOnce - 1) * step < end; i += (kLoadsAtOnce + 1) * step)\n    for")),
    reduction("columns in packs: the last ones are left out", ("  if (d < dim) {\n    const auto add", "  if (d < dim - kWidth) {\n    const auto add")),
    reduction("columns in packs: all get the first one's sums", ("*here = mine[w];", "*here = mine[0];")),
    reduction("columns in packs: a batch of rows begins too late",
              ("row += kPacksAtOnce * step) {\n      PackOfReads<R", "row += (kPacksAtOnce + 1) * step) {\n      PackOfReads<R")),
    reduction("columns in packs: no barrier before the next one's states", ("    if (w > 0) __syncthreads();\n", "")),
    passes("columns in packs: all get the first one's terms", ("of_pack.value(terms[w], w)", "of_pack.value(terms[0], w)")),
    Mutant("moments: the shift is another channel's", NORMALIZATION_UNIT, (("first[d * inner]) + mean", "first[0]) + mean"),), (NORMALIZATION_UNIT,), MOMENTS, ONLY_MOMENTS),
    Mutant("pooling: a pack's marks are the first channel's", "src/ops/common/pooling.hpp", (("static_cast<M>(where[k])", "static_cast<M>(where[0])"),),
           ("src/ops/cuda/pooling.cu",), POOLING),
    host("gradients of weights are taken for bf16", CONVOLUTION, CONVOLUTIONS_IN_16_BITS, ("const DType found = a.algorithm == kColumnsAlgorithm ? dtype_ : factors_;", "const DType found = factors_;")),
    host("gradients of weights in bf16 are left to cuDNN", "src/ops/cuda/convolution_plan.cpp", CONVOLUTIONS_IN_16_BITS, ("problem.dtype == DType::bf16) return true;", "problem.dtype == DType::bf16) return false;")),
    Mutant("packs at odd places are read one too far", "src/ops/common/pack.hpp", (("from[first + w];", "from[first + w + 1];"),), (NORMALIZATION_UNIT,), ODD_PLACES),
    host("factors of convolutions are not rounded to bf16", CONVOLUTION, CONVOLUTIONS_IN_16_BITS, ("device().math() == Math::bf16;", "device().math() == Math::tf32;")),
    host("a bf16 sum is not read before it is added to", "src/ops/cuda/gemm.cpp", PRODUCTS_IN_16_BITS, ("  if (beta != 0) result.read(context);\n", "")),
    reduction("a position counted with 8 bits", ("rest = at - outer * inner;\n               r.add", "rest = static_cast<std::uint8_t>(at - outer * inner);\n               r.add")),
    host("products: TF32 in f32, f32 in TF32", HANDLES, TF32, ("device.math() == Math::tf32   ?", "device.math() != Math::tf32   ?")),
    host("convolutions: TF32 in f32, f32 in TF32", "src/ops/cuda/convolution_plan.cpp", TF32, ("device.math() == Math::tf32);", "device.math() != Math::tf32);")),
    host("unfolding: padding is read", COLUMNS, CONVOLUTIONS, ("inside = inside && x >= 0 && x < v.in[axis];", "inside = inside && x >= 0;")),
    host("folding: windows between the strides", COLUMNS, GRADIENTS_OF_CONVOLUTIONS, ("place.rest != 0 || ", "")),
    transposition("transposition of few rows: tiles overlap", ("first = number % tiles * most,", "first = number % tiles * (most - 1),")),
    transposition("transposition: one column too many", ("row < rows && column < columns)\n", "row < rows && column <= columns)\n")),
    transposition("transposition: rows of a tile overlap", ("kPitch = kTile + 1", "kPitch = kTile - 1")),
    Mutant("pooling: windows reach one row too far", "src/ops/common/pooling.hpp", (("end < input ? end : input", "end < input ? end : input + 1"),),
           ("src/ops/cuda/pooling.cu",), POOLING),
    # grids and shared memory
    reduction("a merge has a block too few", ("static_cast<unsigned>(dim), kernels::kMergeThreads", "static_cast<unsigned>(dim - 1), kernels::kMergeThreads")),
    reduction("columns: a block too few", ("(packs + width - 1) / width", "(packs + width - 1) / width - (packs > width ? 1 : 0)")),
    passes("columns: threads beyond the last one", ("threadIdx.x;\n  if (d >= dim) return;\n", "threadIdx.x;\n")),
    reduction("a block of 2048 threads", ("inline constexpr int kThreads = 256;", "inline constexpr int kThreads = 2048;")),
    reduction("shared memory is read before it is written",
              ("  State* mine = states + threadIdx.x;\n  *mine = state;\n  merge_tree(r, mine, static_cast<int>(threadIdx.x), kThreads, 1);",
               "  State* mine = states + threadIdx.x;\n  if (threadIdx.x != 77) *mine = state;\n  merge_tree(r, mine, static_cast<int>(threadIdx.x), kThreads, 1);")),
    reduction("a kernel gets host memory",
              ("    return static_cast<typename R::State*>(\n        cuda_handles(context).reduction_scratch(count * sizeof(typename R::State)));",
               "    return static_cast<typename R::State*>(::operator new(count * sizeof(typename R::State)));")),
    reduction("scratch for one state too few", ("const auto count = static_cast<std::size_t>(slices * dim);", "const auto count = static_cast<std::size_t>(slices * dim - 1);"),
              ("cuda_handles(context).reduction_scratch(count * sizeof(typename R::State))", "(new Storage(context.device(), count * sizeof(typename R::State)))->data()")),
    # memory
    host("scratch is freed before the launch", HANDLES, MOMENTS, ("  return scratch_->data();", "  void* data = scratch_->data();\n  scratch_.reset();\n  return data;")),
    host("scratch is shared between contexts", HANDLES, ONE_TWICE,
         ("void* CudaHandles::reduction_scratch(std::size_t bytes) {\n", "void* CudaHandles::reduction_scratch(std::size_t bytes) {\n  static Storage* const shared = new Storage(context_->device(), std::size_t{1} << 24);\n  if (bytes > 0) return shared->data();\n")),
    host("cuBLAS is told of too large a workspace", HANDLES, PRODUCTS,
         ("cublas_workspace_->data(), kCublasWorkspaceBytes)", "cublas_workspace_->data(), 2 * kCublasWorkspaceBytes)")),
    host("cuBLAS takes its factors from the GPU", HANDLES, PRODUCTS, ("CUBLAS_POINTER_MODE_HOST", "CUBLAS_POINTER_MODE_DEVICE")),
    host("cuBLAS works on the default stream", HANDLES, PRODUCTS, ("cublasSetStream(handle, stream)", "cublasSetStream(handle, nullptr)")),
    host("cuDNN works on the default stream", HANDLES, CONVOLUTIONS, ("cudnnSetStream(handle, stream)", "cudnnSetStream(handle, nullptr)")),
    host("a convolution's workspace is half as large", CONVOLUTION, CONVOLUTIONS,
         ("const std::size_t work = scratch.reserve(a.workspace_bytes),\n                      w = scratch.reserve(stage_w ? bytes_of(weight, factors_) : 0),\n                      x =",
          "const std::size_t work = scratch.reserve(a.workspace_bytes / 2),\n                      w = scratch.reserve(stage_w ? bytes_of(weight, factors_) : 0),\n                      x =")),
    host("scratch pieces are not aligned", CONVOLUTION, CONVOLUTIONS, ("bytes_ += (bytes + 255) / 256 * 256;", "bytes_ += bytes + 2;")),
    host("pinned memory is freed early", DEVICE, STREAMS, ("  return std::shared_ptr<void>(data, [](", "  static_cast<void>(cudaFreeHost(data));\n  return std::shared_ptr<void>(data, [](")),
    host("device memory is never freed", DEVICE, (STREAMS[0], STREAMS[1].replace(",leaks=0", "")), ("static_cast<void>(cudaFree(data))", "static_cast<void>(data)")),
    host("zero does nothing", DEVICE, STREAMS, ("  if (bytes == 0) return;\n  device().make_current();\n  cuda_check(cudaMemsetAsync", "  if (bytes != 0) return;\n  device().make_current();\n  cuda_check(cudaMemsetAsync")),
    host("zero sets half of the memory", DEVICE, TWO, ("cudaMemsetAsync(to, 0, bytes, stream_)", "cudaMemsetAsync(to, 0, bytes / 2, stream_)")),
    host("a copy is short of its last bytes", DEVICE, STREAMS, ("cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_)", "cudaMemcpyAsync(to, from, bytes - 4, cudaMemcpyDefault, stream_)")),
    # streams, events, GPUs
    host("no stream waits for an event", DEVICE, TWO, ("void CudaStream::wait(const Event& event) {\n", "void CudaStream::wait(const Event& event) {\n  if (stream_ != nullptr) return;\n")),
    host("every fifth wait is left out", DEVICE, TWO, ("void CudaStream::wait(const Event& event) {\n", "void CudaStream::wait(const Event& event) {\n  thread_local int calls = 0;\n  if (++calls % 5 == 0) return;\n")),
    host("every third record is left out", DEVICE, TWO, ("void CudaStream::record(Event& event) {\n", "void CudaStream::record(Event& event) {\n  thread_local int calls = 0;\n  if (++calls % 3 == 0) return;\n")),
    host("events are recorded on the default stream", DEVICE, TWO, ("native(), stream_), device()", "native(), nullptr), device()")),
    host("copies run on the default stream", DEVICE, STREAMS, ("bytes, cudaMemcpyDefault, stream_)", "bytes, cudaMemcpyDefault, nullptr)")),
    host("synchronize does not wait", DEVICE, STREAMS, ("  cuda_check(cudaStreamSynchronize(stream_), device().name(), \"the work of stream \\\"\", name_, \"\\\"\");\n", "")),
    host("no GPU is made current", DEVICE, TWO, ("if (current != ordinal()) cuda_check(cudaSetDevice(ordinal())", "if (current < 0) cuda_check(cudaSetDevice(ordinal())")),
    host("peer access is not enabled", TABLE, TWO, ("const cudaError_t status = cudaDeviceEnablePeerAccess(owner.ordinal(), 0);", "const cudaError_t status = cudaSuccess;")),
    host("peer access is enabled one way", TABLE, TWO, ("const bool one = enable_one_way(from, to), other = enable_one_way(to, from);", "const bool one = enable_one_way(to, from), other = one;")),
    # the order that lives in libbanyan
    of_libbanyan("a copy to the host is not waited for", HOST_COPY, STREAMS, ("  context.stream().copy(direct ? to : staging.data(), memory, from.bytes());\n  context.synchronize();\n", "  context.stream().copy(direct ? to : staging.data(), memory, from.bytes());\n")),
    of_libbanyan("a pipe's receiver does not wait", PIPE, TWO, ("  stream.wait(*from.event);\n", "")),
    of_libbanyan("an exchange by NCCL is taken for enqueued at once", UPLINK, gpu_tests("NcclTraining.AHangingDeviceIsNamed"), ("    wait_until_ready(merging.end);\n", "")),
    of_libbanyan("16-bit gradients leave before they are packed", UPLINK, NARROW, (PACK_AND_SEND, "".join(reversed(PACK_AND_SEND.splitlines(True))))),
    of_libbanyan("16-bit sums: the owner's are not packed", UPLINK, NARROW,
                 ("    ops::pack_narrow(merging.context, merging.message, narrow, merging.mine, packed);\n", "")),
    Mutant("16-bit parts: the owner's own is taken from what was received", "src/ops/common/narrow.hpp",
           (("    if (number == owner) return values[position];\n", ""),), ("src/ops/cuda/narrow.cu",), PACKED),
    Mutant("16-bit parts: the last piece is taken to be whole", "src/ops/common/narrow.hpp",
           (("    const std::int64_t position = rows.position(i, row);\n    if (position >= rows.count) return;\n    const float magnitude", "    const std::int64_t position = rows.position(i, row);\n    const float magnitude"),),
           ("src/ops/cuda/narrow.cu",), PACKED),
    of_libbanyan("compute does not wait for the new weights", GRADIENTS, TWO, ("  compute.wait(*handover_);\n", "")),
]
