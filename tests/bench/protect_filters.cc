// What protection costs an inspected exchange, without the sockets: prints figures as JSON.
//   protect_filters SCALE     0: each loop once, to see that it works
// added_latency: microseconds of one exchange, a request of 1 KiB of JSON with personal data in it
//   and an answer that holds the tokens, through the filter.
// sse_delay: milliseconds that an event of a model's answer waits, the median, where events come
//   each 20 ms and a token now and then in pieces.
// memory: MiB by which the process grows over a body of 1 GiB each way.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "mvm/privacy/filter.h"

using namespace mvm;
using Clock = std::chrono::steady_clock;

namespace {

std::shared_ptr<privacy::PiiSource> source() {
  proto::PiiConfig config;
  config.mode = "tokenize";
  return std::make_shared<privacy::PiiSource>(privacy::compile(config),
                                              [](const privacy::Note&) {});
}

http::RequestHead request(std::string type) {
  http::RequestHead head;
  head.method = "POST";
  head.target = "/v1/messages?beta=true";
  head.headers = {{"Content-Type", std::move(type)},
                  {"Accept", "application/json"},
                  {"Authorization", "Bearer mvm-secret-0123456789"},
                  {"User-Agent", "client/1.2.3"},
                  {"Accept-Encoding", "gzip, deflate"}};
  head.framing = {http::BodyKind::Chunked, 0};
  return head;
}
http::ResponseHead response(std::string type) {
  http::ResponseHead head;
  head.status = 200;
  head.headers = {{"Content-Type", std::move(type)},
                  {"Date", "Mon, 01 Jan 2024 00:00:00 GMT"},
                  {"Server", "example"},
                  {"X-Request-Id", "req_011CSHoEeqs5C35K2UUqR7Fy"}};
  head.framing = {http::BodyKind::Chunked, 0};
  return head;
}

void check(const egress::FilterVerdict& verdict) {
  if (!verdict) return;
  std::fprintf(stderr, "refused: %s\n", verdict->answer.message.c_str());
  std::exit(1);
}

std::string document() {
  std::string text =
      R"({"model":"m-1","max_tokens":1024,"messages":[{"role":"system","content":"You are a helpful )"
      R"(assistant that answers questions about orders."},{"role":"user","content":"Please write to )"
      R"(jane.doe@example.com, or call +1 415-555-2671, about order 12345678."},{"role":"assistant",)"
      R"("content":"Which card was it paid with?"},{"role":"user","content":"4111 1111 1111 1111, )"
      R"(and the second half of it by transfer from DE89370400440532013000."}],"metadata":{"pad":")";
  while (text.size() < 1018) text += "lorem ipsum ";
  return text + R"("}})";
}

double added_latency(size_t rounds) {
  const auto filters = source();
  const std::string body = document();
  std::vector<double> took;
  for (size_t i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    const auto filter = filters->begin({1, i, "api.example", 443, true});
    egress::BodyUse use = egress::BodyUse::Ignore;
    auto head = request("application/json");
    check(filter->request_head(head, use));
    Bytes sent;
    check(filter->request_body(as_bytes(body), true, sent));
    auto answer = response("application/json");
    check(filter->response_head(answer, use));
    Bytes got;
    check(filter->response_body(sent, true, got));
    filter->ended(true);
    took.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    if (as_text(got) != body || as_text(sent).find("jane") != std::string_view::npos) std::exit(1);
  }
  std::ranges::nth_element(took, took.begin() + static_cast<ptrdiff_t>(took.size() / 2));
  return took[took.size() / 2];
}

double sse_delay(size_t events) {
  constexpr double kInterval = 20;  // milliseconds between events
  const auto filters = source();
  const auto filter = filters->begin({1, 0, "api.example", 443, true});
  egress::BodyUse use = egress::BodyUse::Ignore;
  auto head = request("text/plain");
  check(filter->request_head(head, use));
  Bytes sent;
  check(filter->request_body(as_bytes("jane.doe@example.com"), true, sent));
  auto answer = response("text/event-stream");
  check(filter->response_head(answer, use));
  std::string said;
  while (said.size() < events * 4)
    said += "words of an answer, and then some more of them before it names " +
            std::string(as_text(sent)) + ", to whom it may concern. ";
  std::vector<double> delays;
  size_t given = 0;
  std::string all;
  for (size_t i = 0; i < events; ++i) {
    const std::string event =
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"text\":\"" +
        said.substr(4 * i, 4) + "\"}}\n\n";
    const auto begin = Clock::now();
    Bytes out;
    check(filter->response_body(as_bytes(event), i + 1 == events, out));
    const double took = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    all += as_text(out);
    size_t now = 0;
    for (size_t at = all.find("\n\n"); at != std::string::npos; at = all.find("\n\n", at + 2))
      ++now;
    all.erase(0, all.rfind("\n\n") == std::string::npos ? 0 : all.rfind("\n\n") + 2);
    for (; now > 0; --now, ++given)
      delays.push_back(static_cast<double>(i - given) * kInterval + took);
  }
  if (delays.size() != events) std::exit(1);
  std::ranges::nth_element(delays, delays.begin() + static_cast<ptrdiff_t>(delays.size() / 2));
  return delays[delays.size() / 2];
}

double resident() {
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double pages = 0;
  file >> size >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double memory(size_t bytes) {
  const auto filters = source();
  const double before = resident();
  double most = before;
  const std::string unit = document() + "\n";
  std::string piece;
  while (piece.size() + unit.size() <= egress::ExchangeFilter::kMaxPiece) piece += unit;
  for (const std::string type : {"application/json", "text/plain"}) {
    const auto filter = filters->begin({1, 0, "api.example", 443, true});
    egress::BodyUse use = egress::BodyUse::Ignore;
    auto head = request(type);
    check(filter->request_head(head, use));
    auto answer = response(type);
    check(filter->response_head(answer, use));
    for (size_t done = 0; done < bytes / 2; done += piece.size()) {
      Bytes sent;
      check(filter->request_body(as_bytes(piece), false, sent));
      for (size_t at = 0; at < sent.size(); at += egress::ExchangeFilter::kMaxPiece) {
        Bytes got;
        check(filter->response_body(
            ByteView(sent).subspan(at,
                                   std::min(sent.size() - at, egress::ExchangeFilter::kMaxPiece)),
            false, got));
      }
      most = std::max(most, resident());
    }
  }
  return most - before;
}

}

int main(int argc, char** argv) {
  const double scale = argc > 1 ? std::strtod(argv[1], nullptr) : 1;
  const auto times = [scale](double count) {
    return static_cast<size_t>(std::max(100.0, count * scale));
  };
  std::printf("{\"protect.added_latency\": %.3f, \"protect.sse_delay\": %.4f, ",
              added_latency(times(20000)), sse_delay(times(20000)));
  std::printf("\"protect.memory\": %.2f}\n", memory(times(static_cast<double>(1 << 30))));
  return 0;
}
