// The virtqueue core against a driver that is correct, and against one that is not.

#include "mvm/virtio/queue.h"

#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/driver_queue.h"

namespace mvm::virtio {
namespace {

using memory::GuestAddress;
using memory::GuestMemory;
using test::Buffer;
using test::DriverQueue;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kRing = 0x10000;
constexpr uint64_t kData = 0x40000;
constexpr uint64_t kTable = 0x80000;

Queue make(const GuestMemory& memory, const DriverQueue& driver, Features features = kRingFeatures,
           QueuePosition position = {}) {
  auto queue = Queue::activate(memory, driver.registers(), features, position);
  EXPECT_TRUE(queue);
  return std::move(*queue);
}

std::optional<QueueFault> pop_fault(Queue& queue) {
  Chain chain;
  const auto popped = queue.pop(chain);
  return popped ? std::nullopt : std::optional(popped.error());
}

// ---- activation ---------------------------------------------------------------------------------

TEST(QueueActivation, AcceptsExactlyPowersOfTwoUpToTheMaximum) {
  const auto memory = GuestMemory::create(kMiB);
  const DriverQueue driver(memory, kRing, 256);
  for (uint32_t size = 0; size <= 0x10400; ++size) {
    QueueRegisters registers = driver.registers();
    registers.size = size;
    const bool legal = size != 0 && (size & (size - 1)) == 0 && size <= 256;
    const auto queue = Queue::activate(memory, registers, kRingFeatures);
    ASSERT_EQ(bool(queue), legal) << size;
    if (!queue) {
      ASSERT_EQ(queue.error(), QueueFault::BadSize);
    }
  }
  QueueRegisters registers = driver.registers();
  registers.max_size = 64;  // what the device offers counts, not the module's bound
  EXPECT_FALSE(Queue::activate(memory, registers, kRingFeatures));
  registers.size = 64;
  EXPECT_TRUE(Queue::activate(memory, registers, kRingFeatures));
}

TEST(QueueActivation, WantsAreasAligned) {
  const auto memory = GuestMemory::create(kMiB);
  const DriverQueue driver(memory, kRing, 8);
  for (uint64_t shift = 0; shift < 32; ++shift) {
    QueueRegisters registers = driver.registers();
    registers.descriptor_area.value += shift;
    EXPECT_EQ(bool(Queue::activate(memory, registers, kRingFeatures)), shift % 16 == 0);
    registers = driver.registers();
    registers.driver_area.value += shift;
    EXPECT_EQ(bool(Queue::activate(memory, registers, kRingFeatures)), shift % 2 == 0);
    registers = driver.registers();
    registers.device_area.value += shift;
    EXPECT_EQ(bool(Queue::activate(memory, registers, kRingFeatures)), shift % 4 == 0);
  }
}

TEST(QueueActivation, WantsEveryAreaWithinOneRegion) {
  const auto memory = GuestMemory::create(memory::kMmioGapStart + kMiB);
  struct Area {
    GuestAddress QueueRegisters::* field;
    uint64_t length;
    uint64_t alignment;
  };
  constexpr uint32_t kSize = 16;
  const Area areas[] = {{&QueueRegisters::descriptor_area, 16 * kSize, 16},
                        {&QueueRegisters::driver_area, 6 + 2 * kSize, 2},
                        {&QueueRegisters::device_area, 6 + 8 * kSize, 4}};
  const DriverQueue driver(memory, kRing, kSize);
  for (const Area& area : areas) {
    for (const uint64_t end : {memory::kMmioGapStart, memory::kMmioGapEnd + kMiB}) {
      for (uint64_t back = 0; back <= area.length + 32; back += area.alignment) {
        QueueRegisters registers = driver.registers();
        registers.*area.field = GuestAddress{end - back};
        const auto queue = Queue::activate(memory, registers, kRingFeatures);
        ASSERT_EQ(bool(queue), back >= area.length) << back;
        if (!queue) {
          ASSERT_EQ(queue.error(), QueueFault::AreaOutsideMemory);
        }
      }
    }
    QueueRegisters registers = driver.registers();
    registers.*area.field = GuestAddress{UINT64_MAX - 15};
    EXPECT_FALSE(Queue::activate(memory, registers, kRingFeatures));
    registers.*area.field = GuestAddress{memory::kMmioGapStart + 0x1000};
    EXPECT_FALSE(Queue::activate(memory, registers, kRingFeatures));
  }
}

TEST(QueueActivation, FreezesTheRegisters) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 4);
  QueueRegisters registers = driver.registers();
  auto queue = Queue::activate(memory, registers, kRingFeatures);
  ASSERT_TRUE(queue);
  registers.size = 256;
  registers.descriptor_area = {0xdead0000};
  EXPECT_EQ(queue->size(), 4);
  driver.add({{kData, 16, false}});
  Chain chain;
  ASSERT_TRUE(*queue->pop(chain));
  EXPECT_EQ(chain.readable_length(), 16U);
}

// ---- rings --------------------------------------------------------------------------------------

// Every sequence of {driver adds, device pops, device pushes} of a given length, from every start
// around the wrap of the 16-bit indices, against a plain queue.
TEST(QueueModel, AgreesWithAPlainQueueNearTheIndexWrap) {
  const auto memory = GuestMemory::create(kMiB);
  constexpr unsigned kSteps = 8;
  unsigned sequences = 0;
  for (const uint16_t size : {uint16_t{1}, uint16_t{2}, uint16_t{4}}) {
    for (const uint16_t start : {uint16_t{0}, uint16_t{65533}, uint16_t{65535}}) {
      for (unsigned code = 0; code < 6561; ++code) {
        DriverQueue driver(memory, kRing, size);
        driver.start_at(start);
        Queue queue = make(memory, driver, kRingFeatures, {start, start});
        std::deque<uint16_t> available, popped;
        Chain chain;
        uint32_t tag = 0;
        for (unsigned step = 0, rest = code; step < kSteps; ++step, rest /= 3) {
          switch (rest % 3) {
            case 0: {
              if (driver.free_descriptors() == 0) break;
              available.push_back(driver.add({{kData + 16 * tag++, 16, true}}));
              break;
            }
            case 1: {
              const auto got = queue.pop(chain);
              ASSERT_TRUE(got) << fault_name(got.error());
              ASSERT_EQ(*got, !available.empty());
              if (!*got) break;
              ASSERT_EQ(chain.head(), available.front());
              available.pop_front();
              popped.push_back(chain.head());
              break;
            }
            default: {
              if (popped.empty()) break;
              const uint16_t head = popped.back();  // completion in any order
              popped.pop_back();
              queue.push(head, step);
              const auto used = driver.take_used();
              ASSERT_TRUE(used);
              ASSERT_EQ(used->head, head);
              ASSERT_EQ(used->length, step);
            }
          }
          ASSERT_EQ(queue.in_flight(), popped.size());
        }
        ++sequences;
      }
    }
  }
  EXPECT_EQ(sequences, 3U * 3U * 6561U);
}

TEST(Queue, PutBackMakesTheSameChainNextAgain) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 4);
  driver.start_at(65535);
  Queue queue = make(memory, driver, kRingFeatures, {65535, 65535});
  const uint16_t first = driver.add({{kData, 4, true}});
  driver.add({{kData, 8, true}});
  Chain chain;
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(*queue.pop(chain));
    EXPECT_EQ(chain.head(), first);
    queue.put_back(chain);
    EXPECT_EQ(queue.in_flight(), 0U);
    EXPECT_EQ(queue.position().next_avail, 65535);
  }
}

TEST(Queue, RefusesAvailableIndexThatRunsAheadOfTheQueueSize) {
  const auto memory = GuestMemory::create(kMiB);
  for (const uint16_t start : {uint16_t{0}, uint16_t{65530}}) {
    for (uint32_t jump = 0; jump <= 0xffff; ++jump) {
      // Built by hand: a DriverQueue for each of 65536 jumps would only clear memory.
      static DriverQueue driver(memory, kRing, 8);
      for (uint16_t i = 0; i < 8; ++i) {
        driver.set(i, {kData, 16, 0, 0});
        driver.put<uint16_t>(driver.avail() + 4 + 2U * i, i);
      }
      driver.set_avail_index(static_cast<uint16_t>(start + jump));
      Queue queue = make(memory, driver, kRingFeatures, {start, start});
      Chain chain;
      const auto popped = queue.pop(chain);
      if (jump > 8) {
        ASSERT_FALSE(popped);
        ASSERT_EQ(popped.error(), QueueFault::AvailJump);
      } else {
        ASSERT_TRUE(popped);
        ASSERT_EQ(*popped, jump > 0);
      }
      if (jump == 16) jump = 0xfff0;  // the middle is all alike
    }
  }
}

TEST(Queue, RefusesAHeadThatIsStillInFlight) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 4);
  Queue queue = make(memory, driver);
  const uint16_t head = driver.add({{kData, 16, true}});
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  driver.publish(head);
  EXPECT_EQ(pop_fault(queue), QueueFault::HeadInFlight);
}

TEST(Queue, AcceptsAHeadAgainOnceItWasPushed) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 4);
  Queue queue = make(memory, driver);
  const uint16_t head = driver.add({{kData, 16, true}});
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  queue.push(head, 0);
  driver.publish(head);
  ASSERT_TRUE(*queue.pop(chain));
  EXPECT_EQ(chain.head(), head);
}

TEST(Queue, StaysDeadAfterAFaultWhateverTheDriverRepairs) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 4);
  Queue queue = make(memory, driver);
  driver.publish(4);
  EXPECT_EQ(pop_fault(queue), QueueFault::HeadOutOfRange);
  driver.put<uint16_t>(driver.avail() + 4, 0);
  driver.set(0, {kData, 16, 0, 0});
  EXPECT_EQ(pop_fault(queue), QueueFault::HeadOutOfRange);
  EXPECT_FALSE(queue.enable_notifications());
}

// ---- notification -------------------------------------------------------------------------------

TEST(QueueNotification, FollowsTheFlagWithoutEventIndex) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 4);
  Queue queue = make(memory, driver, Features().with(kFeatureVersion1));
  Chain chain;
  EXPECT_FALSE(queue.should_notify()) << "nothing was pushed";
  const auto complete = [&] {
    driver.add({{kData, 16, true}});
    EXPECT_TRUE(*queue.pop(chain));
    queue.push(chain.head(), 0);
    driver.take_used();
  };
  complete();
  EXPECT_TRUE(queue.should_notify());
  EXPECT_FALSE(queue.should_notify()) << "said once";
  driver.set_avail_flags(kAvailNoInterrupt);
  complete();
  EXPECT_FALSE(queue.should_notify());

  queue.disable_notifications();
  EXPECT_EQ(driver.used_flags(), kUsedNoNotify);
  EXPECT_FALSE(queue.enable_notifications());
  EXPECT_EQ(driver.used_flags(), 0);
  driver.add({{kData, 16, true}});
  EXPECT_TRUE(queue.enable_notifications()) << "a chain came before the wish";
}

// used_event at every distance around the batch, at every batch size, around the wrap.
TEST(QueueNotification, InterruptsExactlyWhenUsedEventIsPassed) {
  const auto memory = GuestMemory::create(kMiB);
  for (const uint16_t start : {uint16_t{100}, uint16_t{65533}}) {
    for (uint16_t batch = 1; batch <= 4; ++batch) {
      for (int distance = -6; distance <= 6; ++distance) {
        DriverQueue driver(memory, kRing, 8);
        driver.start_at(start);
        Queue queue = make(memory, driver, kRingFeatures, {start, start});
        Chain chain;
        const auto complete = [&](int count) {
          for (int i = 0; i < count; ++i) {
            driver.add({{kData, 16, true}});
            ASSERT_TRUE(*queue.pop(chain));
            queue.push(chain.head(), 0);
            driver.take_used();
          }
        };
        complete(1);
        EXPECT_TRUE(queue.should_notify()) << "the first after activation is always told";
        const auto before = static_cast<uint16_t>(start + 1);
        driver.set_used_event(static_cast<uint16_t>(before + distance));
        complete(batch);
        EXPECT_EQ(queue.should_notify(), distance >= 0 && distance < batch)
            << start << ' ' << batch << ' ' << distance;
      }
    }
  }
}

TEST(QueueNotification, AsksForAKickAtTheNextChain) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 8);
  driver.start_at(65535);
  Queue queue = make(memory, driver, kRingFeatures, {65535, 65535});
  EXPECT_FALSE(queue.enable_notifications());
  EXPECT_EQ(driver.avail_event(), 65535);
  driver.add({{kData, 16, true}});
  EXPECT_TRUE(queue.enable_notifications());
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  queue.disable_notifications();
  EXPECT_EQ(driver.avail_event(), 65535) << "left behind, so no kick";
  EXPECT_FALSE(queue.enable_notifications());
  EXPECT_EQ(driver.avail_event(), 0);
}

// ---- legal shapes -------------------------------------------------------------------------------

// Cuts of `length` bytes into pieces: bit i of `cuts` is a cut after byte i.
std::vector<uint32_t> pieces(uint32_t length, unsigned cuts) {
  std::vector<uint32_t> out{0};
  for (uint32_t i = 0; i < length; ++i) {
    ++out.back();
    if (i + 1 < length && (cuts >> i & 1) != 0) out.push_back(0);
  }
  return out;
}

// Every way to cut 5 readable and 4 writable bytes into descriptors, each of them as a direct
// chain, as an indirect table, and as every mixture of the two.
TEST(ChainShapes, AllCutsReadAndWriteTheSameBytes) {
  const auto memory = GuestMemory::create(kMiB);
  const std::string text = "hello";
  const std::string answer = "back";
  unsigned shapes = 0;
  for (unsigned in_cuts = 0; in_cuts < 16; ++in_cuts) {
    for (unsigned out_cuts = 0; out_cuts < 8; ++out_cuts) {
      std::vector<Buffer> buffers;
      uint64_t at = kData;
      size_t offset = 0;
      std::vector<uint64_t> out_bytes;
      for (const uint32_t length : pieces(5, in_cuts)) {
        ASSERT_TRUE(memory.write({at}, as_bytes(text).subspan(offset, length)));
        buffers.push_back({at, length, false});
        offset += length;
        at += 64;  // never next to each other
      }
      for (const uint32_t length : pieces(4, out_cuts)) {
        buffers.push_back({at, length, true});
        for (uint32_t i = 0; i < length; ++i) out_bytes.push_back(at + i);
        at += 64;
      }
      // -1 is direct; otherwise so many direct descriptors before the table.
      for (int direct = -1; direct < static_cast<int>(buffers.size()); ++direct) {
        DriverQueue driver(memory, kRing, 16);
        Queue queue = make(memory, driver);
        if (direct < 0)
          driver.add(buffers);
        else
          driver.add_indirect(buffers, kTable, static_cast<size_t>(direct));
        Chain chain;
        const auto popped = queue.pop(chain);
        ASSERT_TRUE(popped) << fault_name(popped.error());
        ASSERT_TRUE(*popped);
        ASSERT_EQ(chain.readable_length(), 5U);
        ASSERT_EQ(chain.writable_length(), 4U);
        std::string got(9, '.');
        ChainReader reader = chain.reader();
        ASSERT_EQ(reader.read(std::as_writable_bytes(std::span(got))), 5U);
        ASSERT_EQ(got.substr(0, 5), text);
        ASSERT_EQ(reader.remaining(), 0U);
        ChainWriter writer = chain.writer();
        ASSERT_EQ(writer.write(as_bytes(answer + "no room")), 4U);
        for (size_t i = 0; i < answer.size(); ++i)
          ASSERT_EQ(driver.get<char>(out_bytes[i]), answer[i]);
        ++shapes;
      }
    }
  }
  EXPECT_GT(shapes, 128U * 4);
}

TEST(ChainShapes, ReadValueIsAllOrNothing) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 8);
  Queue queue = make(memory, driver);
  driver.put<uint64_t>(kData, 0x1122334455667788);
  driver.add({{kData, 3, false}, {kData + 3, 4, false}});
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  ChainReader reader = chain.reader();
  EXPECT_FALSE(reader.read_value<uint64_t>());
  EXPECT_EQ(reader.position(), 0U);
  EXPECT_EQ(reader.read_value<uint32_t>(), 0x55667788U);
  EXPECT_EQ(reader.read_value<uint16_t>(), 0x3344U);
  EXPECT_FALSE(reader.read_value<uint16_t>());
  EXPECT_EQ(reader.remaining(), 1U);
}

TEST(ChainShapes, GatherGivesExactlyTheBytesAskedForFromAnyPosition) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 8);
  Queue queue = make(memory, driver);
  driver.add({{kData, 3, true}, {kData + 100, 1, true}, {kData + 200, 5, true}});
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  std::vector<std::byte*> expected;
  for (const auto& [at, length] : {std::pair{kData, 3}, {kData + 100, 1}, {kData + 200, 5}})
    for (int i = 0; i < length; ++i) expected.push_back(memory.slice({at}, 5)->data() + i);
  for (size_t from = 0; from <= 9; ++from) {
    for (size_t length = 0; length <= 12; ++length) {
      ChainWriter writer = chain.writer();
      ASSERT_EQ(writer.skip(from), from);
      std::array<iovec, kMaxQueueSize> room;
      std::vector<std::byte*> got;
      for (const iovec& segment : writer.gather(length, room)) {
        EXPECT_GT(segment.iov_len, 0U);
        for (size_t i = 0; i < segment.iov_len; ++i)
          got.push_back(static_cast<std::byte*>(segment.iov_base) + i);
      }
      const size_t count = std::min(length, 9 - from);
      ASSERT_EQ(got, std::vector(expected.begin() + static_cast<ptrdiff_t>(from),
                                 expected.begin() + static_cast<ptrdiff_t>(from + count)));
      ASSERT_EQ(writer.position(), from) << "gather does not move";
    }
  }
}

TEST(ChainShapes, TheLongestLegalChainIsTheQueueSizeDirectOrIndirect) {
  const auto memory = GuestMemory::create(kMiB);
  for (const size_t length : {255U, 256U}) {
    const std::vector<Buffer> buffers(length, Buffer{kData, 64, true});
    {
      DriverQueue driver(memory, kRing, 256);
      Queue queue = make(memory, driver);
      driver.add(buffers);
      Chain chain;
      ASSERT_TRUE(*queue.pop(chain));
      EXPECT_EQ(chain.writable_length(), length * 64);
    }
    {
      DriverQueue driver(memory, kRing, 256);
      Queue queue = make(memory, driver);
      driver.add_indirect(buffers, kTable);
      Chain chain;
      ASSERT_TRUE(*queue.pop(chain));
      EXPECT_EQ(chain.writable_length(), length * 64);
    }
  }
  DriverQueue driver(memory, kRing, 256);
  Queue queue = make(memory, driver);
  driver.add_indirect(std::vector<Buffer>(257, Buffer{kData, 64, true}), kTable);
  EXPECT_EQ(pop_fault(queue), QueueFault::ChainTooLong);
}

TEST(ChainShapes, EmptyBuffersAreNoSegments) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 8);
  Queue queue = make(memory, driver);
  driver.add({{UINT64_MAX, 0, false}, {kData, 4, false}, {0, 0, true}, {kData, 2, true}});
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  EXPECT_EQ(chain.readable_length(), 4U);
  EXPECT_EQ(chain.writable_length(), 2U);
}

// ---- illegal shapes -----------------------------------------------------------------------------

struct Hostile {
  const char* name;
  QueueFault fault;
  void (*arrange)(DriverQueue&);
};

constexpr uint16_t kN = kDescriptorNext;
constexpr uint16_t kW = kDescriptorWrite;
constexpr uint16_t kI = kDescriptorIndirect;

const Hostile kHostile[] = {
    {"head out of range", QueueFault::HeadOutOfRange, [](DriverQueue& d) { d.publish(8); }},
    {"head 65535", QueueFault::HeadOutOfRange, [](DriverQueue& d) { d.publish(0xffff); }},
    {"next out of range", QueueFault::NextOutOfRange,
     [](DriverQueue& d) {
       d.set(0, {kData, 4, kN, 8});
       d.publish(0);
     }},
    {"next 65535", QueueFault::NextOutOfRange,
     [](DriverQueue& d) {
       d.set(0, {kData, 4, kN, 0xffff});
       d.publish(0);
     }},
    {"loop of one", QueueFault::ChainTooLong,
     [](DriverQueue& d) {
       d.set(0, {kData, 4, kN, 0});
       d.publish(0);
     }},
    {"loop of one, empty", QueueFault::ChainTooLong,
     [](DriverQueue& d) {
       d.set(0, {0, 0, kN, 0});
       d.publish(0);
     }},
    {"loop of two after a tail", QueueFault::ChainTooLong,
     [](DriverQueue& d) {
       d.set(0, {kData, 4, kN, 3});
       d.set(3, {kData, 4, kN, 5});
       d.set(5, {kData, 4, kN, 3});
       d.publish(0);
     }},
    {"readable after writable", QueueFault::ReadableAfterWritable,
     [](DriverQueue& d) {
       d.set(0, {kData, 4, kN | kW, 1});
       d.set(1, {kData, 4, 0, 0});
       d.publish(0);
     }},
    {"readable after writable across the table", QueueFault::ReadableAfterWritable,
     [](DriverQueue& d) {
       d.set(0, {kData, 4, kN | kW, 1});
       d.set(1, {kTable, 16, kI, 0});
       d.put(kTable, Descriptor{kData, 4, 0, 0});
       d.publish(0);
     }},
    {"buffer in the gap", QueueFault::BufferOutsideMemory,
     [](DriverQueue& d) {
       d.set(0, {memory::kMmioGapStart, 4, 0, 0});
       d.publish(0);
     }},
    {"buffer wraps the address space", QueueFault::BufferOutsideMemory,
     [](DriverQueue& d) {
       d.set(0, {UINT64_MAX - 3, 8, 0, 0});
       d.publish(0);
     }},
    {"buffer of 4 GiB - 1", QueueFault::BufferOutsideMemory,
     [](DriverQueue& d) {
       d.set(0, {0, 0xffffffff, kW, 0});
       d.publish(0);
     }},
    {"indirect nested", QueueFault::IndirectNested,
     [](DriverQueue& d) {
       d.set(0, {kTable, 32, kI, 0});
       d.put(kTable, Descriptor{kTable, 32, kI, 0});
       d.publish(0);
     }},
    {"indirect with next", QueueFault::IndirectWithNext,
     [](DriverQueue& d) {
       d.set(0, {kTable, 16, kI | kN, 1});
       d.publish(0);
     }},
    {"indirect of no length", QueueFault::IndirectBadLength,
     [](DriverQueue& d) {
       d.set(0, {kTable, 0, kI, 0});
       d.publish(0);
     }},
    {"indirect of odd length", QueueFault::IndirectBadLength,
     [](DriverQueue& d) {
       d.set(0, {kTable, 24, kI, 0});
       d.publish(0);
     }},
    {"indirect table outside memory", QueueFault::BufferOutsideMemory,
     [](DriverQueue& d) {
       d.set(0, {memory::kMmioGapStart - 16, 32, kI, 0});
       d.publish(0);
     }},
    {"indirect next beyond the table", QueueFault::NextOutOfRange,
     [](DriverQueue& d) {
       d.set(0, {kTable, 32, kI, 0});
       d.put(kTable, Descriptor{kData, 4, kN, 2});
       d.publish(0);
     }},
    {"indirect loop", QueueFault::ChainTooLong,
     [](DriverQueue& d) {
       d.set(0, {kTable, 0xfff0, kI, 0});
       d.put(kTable, Descriptor{kData, 4, kN, 1});
       d.put(kTable + 16, Descriptor{kData, 4, kN, 0});
       d.publish(0);
     }},
    {"total beyond 4 GiB by aliasing", QueueFault::TotalTooLong,
     [](DriverQueue& d) {
       d.set(0, {0, 0xC000'0000, kN, 1});
       d.set(1, {0, 0x4000'0001, 0, 0});
       d.publish(0);
     }},
};

TEST(ChainHostile, EveryIllegalShapeIsItsOwnFault) {
  const auto memory = GuestMemory::create(memory::kMmioGapStart + kMiB);
  for (const Hostile& hostile : kHostile) {
    DriverQueue driver(memory, kRing, 8);
    Queue queue = make(memory, driver);
    hostile.arrange(driver);
    const auto fault = pop_fault(queue);
    ASSERT_TRUE(fault) << hostile.name;
    EXPECT_EQ(*fault, hostile.fault) << hostile.name << ": " << fault_name(*fault);
  }
}

TEST(ChainHostile, FourGibibytesExactlyAreStillLegal) {
  const auto memory = GuestMemory::create(memory::kMmioGapStart + kMiB);
  DriverQueue driver(memory, kRing, 8);
  Queue queue = make(memory, driver);
  driver.add({{0, 0xC000'0000, false}, {0, 0x4000'0000, false}});
  Chain chain;
  ASSERT_TRUE(*queue.pop(chain));
  EXPECT_EQ(chain.readable_length(), uint64_t{4} << 30);
}

TEST(ChainHostile, IndirectIsRefusedUnlessNegotiated) {
  const auto memory = GuestMemory::create(kMiB);
  DriverQueue driver(memory, kRing, 8);
  Queue queue = make(memory, driver, Features().with(kFeatureVersion1));
  driver.add_indirect(std::vector<Buffer>{{kData, 4, false}}, kTable);
  EXPECT_EQ(pop_fault(queue), QueueFault::IndirectNotNegotiated);
}

// A buffer, and an indirect table, at every distance before the end of either region.
TEST(ChainHostile, RangesMayTouchARegionsEndButNeverCrossIt) {
  const auto memory = GuestMemory::create(memory::kMmioGapStart + kMiB);
  for (const uint64_t end : {memory::kMmioGapStart, memory::kMmioGapEnd + kMiB}) {
    for (uint32_t length = 1; length <= 48; ++length) {
      for (uint32_t back = 0; back <= length; ++back) {
        DriverQueue driver(memory, kRing, 8);
        Queue queue = make(memory, driver);
        driver.add({{end - back, length, (length & 1) != 0}});
        Chain chain;
        const auto popped = queue.pop(chain);
        ASSERT_EQ(bool(popped), back >= length) << length << ' ' << back;
        if (!popped) {
          ASSERT_EQ(popped.error(), QueueFault::BufferOutsideMemory);
        }
      }
    }
    for (const uint32_t entries : {1U, 2U, 4U}) {
      for (uint32_t back = 0; back <= entries * 16; ++back) {
        DriverQueue driver(memory, kRing, 8);
        Queue queue = make(memory, driver);
        driver.set(0, {end - back, entries * 16, kI, 0});
        driver.publish(0);
        Chain chain;
        ASSERT_EQ(bool(queue.pop(chain)), back >= entries * 16) << entries << ' ' << back;
      }
    }
  }
  // Just below the start of the upper region is the gap.
  DriverQueue driver(memory, kRing, 8);
  Queue queue = make(memory, driver);
  driver.add({{memory::kMmioGapEnd - 1, 2, false}});
  EXPECT_EQ(pop_fault(queue), QueueFault::BufferOutsideMemory);
}

}
}
