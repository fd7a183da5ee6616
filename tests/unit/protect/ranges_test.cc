// Payment cards of every network, at the borders of their ranges, and wallets of every currency.

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/protect/scanner.h"

namespace mvm::protect {
namespace {

// A number that begins so, filled up to `length` by digits and its check digit (ISO/IEC 7812-1).
std::string card(const std::string& begin, size_t length) {
  std::string out = begin;
  while (out.size() + 1 < length) out += static_cast<char>('1' + out.size() % 8);
  int sum = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    int digit = out[out.size() - 1 - i] - '0';
    if (i % 2 == 0) digit = digit * 2 > 9 ? digit * 2 - 9 : digit * 2;
    sum += digit;
  }
  return out + static_cast<char>('0' + (10 - sum % 10) % 10);
}

std::vector<std::string> cards_in(std::string_view text) {
  std::vector<std::string> out;
  for (const Finding& finding : scan(text))
    if (finding.kind == PiiClass::Card)
      out.emplace_back(text.substr(finding.offset, finding.length));
  return out;
}

TEST(CardRanges, OfEveryNetworkAreFound) {
  struct Network {
    const char* name;
    std::vector<std::string> begins;
    std::vector<size_t> lengths;
  };
  const std::vector<Network> networks{
      {"Visa", {"40", "45", "49"}, {13, 16, 19}},
      {"Mastercard", {"51", "52", "53", "54", "55"}, {16}},
      {"Mastercard, series 2", {"2221", "2229", "223", "23", "26", "271", "2720"}, {16}},
      {"American Express", {"34", "37"}, {15}},
      {"Discover", {"6011", "644", "645", "649", "65", "622126", "622925"}, {16}},
      {"Diners Club", {"300", "305", "36", "38", "39"}, {14}},
      {"JCB", {"3528", "3529", "3558", "3589"}, {16}},
      {"JCB", {"2131", "1800"}, {15}},
      {"UnionPay", {"620", "625", "629"}, {16, 17, 18, 19}},
      {"Maestro", {"5018", "5020", "5038", "56", "57", "58"}, {16, 17, 18, 19}},
      {"Maestro", {"6304", "6759", "6761", "6763"}, {16}},
      {"Mir", {"2200", "2201", "2202", "2203", "2204"}, {16}},
      {"RuPay", {"508500", "508999", "606985", "607984", "652150"}, {16}},
  };
  std::set<std::string> names;
  for (const Network& network : networks) {
    names.insert(network.name);
    for (const std::string& begin : network.begins)
      for (const size_t length : network.lengths) {
        const std::string number = card(begin, length);
        EXPECT_EQ(cards_in("card: " + number + "."), std::vector<std::string>{number})
            << network.name;
        std::string wrong = number;
        wrong.back() = wrong.back() == '9' ? '0' : static_cast<char>(wrong.back() + 1);
        EXPECT_EQ(cards_in("card: " + wrong + "."), std::vector<std::string>{}) << network.name;
      }
  }
  EXPECT_EQ(names.size(), 11U);
}

TEST(CardRanges, EndWhereTheyEnd) {
  for (const char* begin : {"0", "1", "2220", "2721", "2199", "2205", "30", "3527", "3590", "7",
                            "8", "9", "59", "643", "6302", "6760"})
    EXPECT_EQ(cards_in("card: " + card(begin, 16)), std::vector<std::string>{}) << begin;
  for (const char* begin : {"33", "35", "38", "4", "51", "62"})
    EXPECT_EQ(cards_in("card: " + card(begin, 15)), std::vector<std::string>{}) << begin;
  for (const char* begin : {"306", "35", "37", "4", "51"})
    EXPECT_EQ(cards_in("card: " + card(begin, 14)), std::vector<std::string>{}) << begin;
}

struct Wallet {
  std::string_view currency;
  std::string_view address;
};

// Of 20 and 32 bytes that nobody's key has, put together by other implementations (BIP 13, 173 and
// 350 in Python); those of Ethereum are EIP-55's own.
constexpr Wallet kWallets[] = {
    {"bitcoin", "1gHcGVLU3UUTgc6fgVPjUj2c4wJzGJwkJ"},
    {"bitcoin", "32NJXoyn1wnrYrJXnn9zA75xkbE2TavYNf"},
    {"bitcoin", "bc1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpw29mlmz"},
    {"bitcoin", "bc1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzqwwr8a5"},
    {"bitcoin", "bc1pqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzqyerw9g"},
    {"bitcoin", "tb1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpwqrqvq3"},
    {"bitcoin", "tb1pqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzqn34pl8"},
    {"bitcoin_test", "mgCEuKaKH4ujEo5iPFTmZPwMU4Y1qsb2GK"},
    {"bitcoin_test", "2MsvWbYuodQJCkdw5Tumrn45DxwSCGah5XB"},
    {"litecoin", "LKuEsUoAYhiXiVJFqpUh1VnnpHJb7np8Qm"},
    {"litecoin", "M8aSqhPjy4eHMMaRtf9KykLN5HpUUptTSD"},
    {"litecoin", "ltc1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpwwepmrj"},
    {"litecoin", "ltc1pqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzq8ad7ld"},
    {"dogecoin", "D5pP9XRymTNkzgnhQGUxHEtdVCfcGhyy13"},
    {"dogecoin", "9s7ZGf3g61fkTDg1CupQQEiLTAc4aTMrPS"},
    {"dash", "XbN8SX9ERkh4cdCgXZocb1QpSQX11En3SA"},
    {"dash", "7T5wN1FwpvtVYcqV4PpVVV5cg94QKM3KS7"},
    {"tron", "TAeVcKs4cmbRcrfjFx97FdRAWrgdBWBpPS"},
    {"zcash", "t1JYtcbuUSNG54Kezc7JWsHpwrj8PiLWgi6"},
    {"zcash", "t3KEuY9PuzGaT9VMRjCy7HvBt1FR7LXJ5rC"},
    {"cosmos", "cosmos1qahpvysmu6p4u3cw53aj3l7dk5hrcvpwul95l0"},
    {"osmo", "osmo1qahpvysmu6p4u3cw53aj3l7dk5hrcvpw5ykyfa"},
    {"celestia", "celestia1qahpvysmu6p4u3cw53aj3l7dk5hrcvpwd45y9z"},
    {"inj", "inj1qahpvysmu6p4u3cw53aj3l7dk5hrcvpwkkjsdh"},
    {"addr",
     "addr1qyrku9sjr0ngxhj8p6j8k28lek6ju0ps9chrnr8xkt6t7rgmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmu"
     "ym2lzqqe4fk3"},
    {"ethereum", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    {"ethereum", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
    {"ethereum", "0x52908400098527886E0F7030069857D2E4169EE7"},
    {"ethereum", "0xde709f2102306220921060314dc629080e2fb77a"},
};

TEST(Wallets, OfEveryCurrencyAreFoundAndNamed) {
  std::set<std::string_view> currencies;
  for (const Wallet& wallet : kWallets) {
    currencies.insert(wallet.currency);
    const std::string text = "to " + std::string(wallet.address) + ", please";
    const auto findings = scan(text);
    ASSERT_EQ(findings.size(), 1U) << text;
    EXPECT_EQ(findings[0].kind, PiiClass::CryptoAddress) << text;
    EXPECT_EQ(findings[0].detail, wallet.currency) << text;
    EXPECT_EQ(text.substr(findings[0].offset, findings[0].length), wallet.address);
  }
  EXPECT_EQ(currencies.size(), 13U);
}

TEST(Wallets, WithAnotherLetterOrTheOtherChecksumAreNone) {
  const auto none = [](const std::string& text) {
    for (const Finding& finding : scan("to " + text + ", please"))
      if (finding.kind == PiiClass::CryptoAddress) return false;
    return true;
  };
  for (const Wallet& wallet : kWallets) {
    if (wallet.currency == "ethereum") continue;
    std::string wrong(wallet.address);
    char& letter = wrong[wrong.size() / 2];
    letter = letter == 'q' ? 'p' : 'q';
    EXPECT_TRUE(none(wrong)) << wrong;
  }
  for (const char* wrong :
       // Bech32 where Bech32m belongs, and the other way round.
       {"bc1pqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzq39nzq2",
        "bc1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpwletn7q",
        "tb1pqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzqxd9d69",
        "tb1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpw4lsq9n",
        "ltc1pqahpvysmu6p4u3cw53aj3l7dk5hrcvpw9cucee4j7jlsmuym2lzqjpaj60",
        "ltc1qqahpvysmu6p4u3cw53aj3l7dk5hrcvpwm93hxs",
        // A case that EIP-55 has otherwise.
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD", "0xfb6916095ca1df60bB79Ce92cE3Ea74c37c5d359"})
    EXPECT_TRUE(none(wrong)) << wrong;
}

}
}
