// A load for a disk, run inside a guest: ours and a peer's alike.
//
//   block_load DEVICE OFFSET_MIB SIZE_MIB fill|randread|seqread|seqwrite
//
// Works past the guest's page cache (O_DIRECT), by Linux AIO, within SIZE_MIB of the device from
// OFFSET_MIB on. Prints the mode and the milliseconds it took:
//   fill      writes all of it once, so that the others find it allocated
//   randread  reads 4 KiB pieces from random places, 32 at a time, 32 for each MiB of the size
//   seqread   reads 1 MiB pieces in order, 4 at a time
//   seqwrite  writes 1 MiB pieces in order, 4 at a time, and then syncs

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

[[noreturn]] void fail(const char* doing) {
  std::fprintf(stderr, "block_load: %s: %s\n", doing, std::strerror(errno));
  std::exit(1);
}

struct Load {
  uint64_t piece;
  unsigned depth;
  uint16_t opcode;
  bool random;
};

class Runner {
 public:
  Runner(int fd, const Load& load) : fd_(fd), load_(load), blocks_(load.depth) {
    if (::syscall(SYS_io_setup, load.depth, &context_) != 0) fail("io_setup");
    // The contents do not matter, that all of it is touched does.
    void* memory = nullptr;
    if (::posix_memalign(&memory, 4096, load.piece * load.depth) != 0) fail("memory");
    buffer_ = static_cast<std::byte*>(memory);
    std::memset(buffer_, 0x5a, load.piece * load.depth);
  }
  ~Runner() {
    ::syscall(SYS_io_destroy, context_);
    std::free(buffer_);
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void run(uint64_t offset, uint64_t size, uint64_t count) {
    std::mt19937_64 random(1);
    const auto next = [&](uint64_t number) {
      const uint64_t pieces = size / load_.piece;
      return offset + (load_.random ? random() % pieces : number % pieces) * load_.piece;
    };
    std::vector<io_event> events(load_.depth);
    std::vector<iocb*> ready;
    for (unsigned slot = 0; slot < load_.depth; ++slot) ready.push_back(&blocks_[slot]);
    for (uint64_t asked = 0, done = 0; done < count;) {
      std::vector<iocb*> batch;
      while (!ready.empty() && asked < count) {
        iocb* block = ready.back();
        ready.pop_back();
        prepare(*block, next(asked++));
        batch.push_back(block);
      }
      for (size_t put = 0; put < batch.size();) {
        const long got = ::syscall(SYS_io_submit, context_, batch.size() - put, &batch[put]);
        if (got <= 0) fail("io_submit");
        put += static_cast<size_t>(got);
      }
      const long got = ::syscall(SYS_io_getevents, context_, 1L, static_cast<long>(load_.depth),
                                 events.data(), nullptr);
      if (got <= 0) fail("io_getevents");
      for (long i = 0; i < got; ++i) {
        const io_event& event = events[static_cast<size_t>(i)];
        if (event.res != static_cast<int64_t>(load_.piece)) {
          errno = event.res < 0 ? static_cast<int>(-event.res) : EIO;
          fail("a request");
        }
        ready.push_back(&blocks_[event.data]);
      }
      done += static_cast<uint64_t>(got);
    }
  }

 private:
  void prepare(iocb& block, uint64_t at) {
    const auto slot = static_cast<size_t>(&block - blocks_.data());
    block = {};
    block.aio_data = slot;
    block.aio_lio_opcode = load_.opcode;
    block.aio_fildes = static_cast<uint32_t>(fd_);
    // The kernel's interface wants an address as a number.
    block.aio_buf = reinterpret_cast<uint64_t>(buffer_ + slot * load_.piece);
    block.aio_nbytes = load_.piece;
    block.aio_offset = static_cast<int64_t>(at);
  }

  int fd_;
  Load load_;
  aio_context_t context_ = 0;
  std::vector<iocb> blocks_;
  std::byte* buffer_ = nullptr;
};

}

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("block_load DEVICE OFFSET_MIB SIZE_MIB fill|randread|seqread|seqwrite\n", stderr);
    return 2;
  }
  const std::string mode = argv[4];
  const uint64_t offset = std::strtoull(argv[2], nullptr, 10) * kMiB;
  const uint64_t size = std::strtoull(argv[3], nullptr, 10) * kMiB;
  const bool writes = mode == "fill" || mode == "seqwrite";
  const Load load =
      mode == "randread"
          ? Load{4096, 32, IOCB_CMD_PREAD, true}
          : Load{kMiB, 4, static_cast<uint16_t>(writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD), false};
  const int fd = ::open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
  if (fd < 0) fail(argv[1]);
  Runner runner(fd, load);
  const auto began = std::chrono::steady_clock::now();
  runner.run(offset, size, load.random ? size / kMiB * 32 : size / load.piece);
  if (writes && ::fsync(fd) != 0) fail("fsync");
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf("%s %.1f\n", mode.c_str(), took.count());
  return 0;
}
