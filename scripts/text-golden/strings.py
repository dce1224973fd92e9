"""The strings that tokenizers are compared on: deterministic, about 2,400 of them."""

import random
import unicodedata

PROSE = [
    "The quick brown fox jumps over the lazy dog, and it doesn't care what you'll say.",
    "I've heard they're 42 years old; we'd better ask. IT'S FINE, SHE'LL COME, THEY'VE GONE.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich; Straße, Füße, Öl.",
    "Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis — n’est-ce pas ?",
    "El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Dónde está la biblioteca?",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Zażółć gęślą jaźń.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ёжик в тумане.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία· η γλώσσα μου είναι ελληνική.",
    "東京は日本の首都です。私は毎朝コーヒーを飲みます。カタカナ、ひらがな、漢字。",
    "我能吞下玻璃而不伤身体。人工智能正在改变世界,对吧?「引号」《书名》",
    "다람쥐 헌 쳇바퀴에 타고파. 안녕하세요, 세계! 한글은 1443년에 만들어졌다.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق. ١٢٣٤",
    "دَعِ الأَيَّامَ تَفْعَلُ مَا تَشَاءُ وَطِبْ نَفْسًا إِذَا حَكَمَ الْقَضَاءُ",
    "עטלף אבק נס דרך מזגן שהתפוצץ כי חם. שָׁלוֹם עֲלֵיכֶם",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम। १२३",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓",
    "ខ្ញុំអាចញ៉ាំកញ្ចក់បាន ដោយគ្មានបញ្ហា", "ကျွန်တော် မြန်မာလို ပြောတတ်တယ်", "ผู้ที่ ไม่รู้ 42% ของ ๙๙",
    "বাংলা ভাষা: আমি কাচ খেতে পারি।", "தமிழ்: நான் கண்ணாடி சாப்பிடுவேன்.", "ქართული ენა", "Հայերեն լեզու", "አማርኛ ቋንቋ ነው።",
    "Tiếng Việt có nhiều dấu: Tôi có thể ăn thủy tinh mà không hại gì.", "İstanbul'da ığdır; DİYARBAKIR 'Lİ",
    "ﬁne ﬂow oﬀice ſtreet’ſ it'ſ K Å Ω ①②③ ½⅓ Ⅳ ⅷ x² H₂O", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒯𝑒𝓍𝓉 𝟙𝟚𝟛 𐍈 𒀀 𓀀 𠮷野家",
]

CODE = [
    'fn main() {\n    let xs: Vec<u32> = (0..10).map(|x| x * x).collect();\n    println!("{:?}", &xs[..]);\n}\n',
    "def fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    '#include <stdio.h>\r\nint main(void) {\r\n\tprintf("%d\\n", 0x7fffffff);\r\n\treturn 0;\r\n}\r\n',
    'SELECT a.id, COUNT(*) AS n FROM "t" a LEFT JOIN b USING (id) WHERE a.x >= 1e-3 GROUP BY 1 ORDER BY n DESC;',
    '{"name": "get_weather", "arguments": {"city": "São Paulo", "days": [1, 2, 3], "ok": true, "x": null}}',
    "<html><body class='a b'>\n  <p>Hi &amp; bye</p>\n  <!-- note -->\n</body></html>\n",
    "for (let i=0;i<n;++i){a[i]=b[i]??c?.d;}// done\n/* block\n * comment */\nconst f=async()=>await x;\n",
    "$ git commit -m 'fix: a/b/c' && cd ../../x; echo $HOME | sed -e 's/\\//_/g' > /dev/null 2>&1\n",
    "| a | b |\n|---|:-:|\n| 1 | **2** |\n\n# Title\n\n- [ ] item\n    - nested\n\n```py\nx = 1\n```\n",
    "\\begin{align}\n  E &= mc^2 \\\\\n  \\int_0^\\infty e^{-x^2}\\,dx &= \\frac{\\sqrt{\\pi}}{2}\n\\end{align}\n",
    "https://example.org/a/b?q=1&r=%20#frag user.name+tag@mail.example.com C:\\Users\\x\\y.txt 192.168.0.1:8080",
    "camelCase PascalCase snake_case SCREAMING_CASE kebab-case XMLHttpRequest2 iPhone15 x86_64 utf8mb4 i18n",
]

EMOJI = [
    "👨‍👩‍👧‍👦 family", "🏳️‍🌈 flag 🏴󠁧󠁢󠁥󠁮󠁧󠁿 England", "👍🏽👍🏿 skin 🤷🏻‍♀️", "1️⃣2️⃣ #️⃣", "🇩🇪🇫🇷🇯🇵🇨", "❤️❤︎ ☃️ ©️ ™ ☑",
    "😀😃😄😁🥲🫠🫡🫨🪿", "a😀b 😀 c", "🧑‍🚀🧑🏽‍🤝‍🧑🏻", "‼️ ⁉ 〰️ ㊗️",
]

COMBINING = [
    "e\u0301 a\u0308 n\u0303 o\u0302\u0301 ", "Z\u0334\u0306a\u0335\u0301l\u0336\u0300g\u0337\u0302o\u0338\u0303", "\u0301leading mark",
    "a\u0327\u0301 a\u0301\u0327", "\u1100\u1161\u11a8 \uac00\u11a8", "\u0958 \u095c \u09dc \u0344 \u2126 \u212b", "x\u20dd \u0e33 \u0ec8\u0eb2",
    "\u05e9\u05bc\u05c1 \ufb2c", "क\u093c ज\u093c", "A\u030a\u0323 \u1ea1\u0302", "\u0f71\u0f72\u0f74 \u0f73", "q\u0307\u0323",
]

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "<|begin_of_text|>", "<|eot_id|>",
    "<|start_header_id|>", "<|channel|>", "<|message|>", "<|return|>", "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>",
    "<unk>", "<pad>", "<unused7>", "<h1>", "</strong>", "[multimodal]", "<|reserved_special_token_17|>", "<0x0A>", "<0xE2>",
    "<|im_start", "|im_end|>", "<<|im_end|>>", "▁", "▁▁", "▁▁▁ ▁", "\t\t\t", "\n\n\n",
]

SPACES = " \t\n\r\v\f\u0085\u00a0\u1680\u2000\u2003\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"


def white_space(r):
    kinds = ["    ", "  ", " ", "\n", "\t", "\r\n", " \n", "\n ", "\n\n"]
    run = lambda: "".join(r.choice(kinds) for _ in range(r.randint(1, 6)))
    if r.random() < 0.3:
        run = lambda: "".join(r.choice(SPACES) for _ in range(r.randint(1, 5)))
    if r.random() < 0.15:
        run = lambda: r.choice(" \n\t▁") * r.randint(1, 70)
    words = ["a", "the", "1", "12", "==", "x(", "!", "Zürich", "'s", "中", "/", "_"]
    return "".join(run() + r.choice(words) for _ in range(r.randint(1, 6))) + (run() if r.random() < 0.5 else "")


def number(r):
    kind = r.randrange(6)
    if kind == 0:
        return str(r.randrange(10 ** r.randint(1, 25)))
    if kind == 1:
        return f"{r.uniform(-1e6, 1e6):.{r.randint(0, 12)}f}"
    if kind == 2:
        return f"{r.uniform(-1, 1):e} {r.randrange(2 ** 48):#x} 0b{r.randrange(256):08b}"
    if kind == 3:
        return f"{r.randrange(10 ** 9):,} {r.randrange(1, 13):02}/{r.randrange(1, 29):02}/{r.randrange(1900, 2100)} {r.randrange(24)}:{r.randrange(60):02}"
    if kind == 4:
        return "".join(chr(r.choice([0x30, 0x660, 0x966, 0xE50, 0xFF10, 0x1D7CE]) + r.randrange(10)) for _ in range(r.randint(1, 9)))
    return "".join(r.choice("0123456789½¼²³⁴₅①Ⅷ一二三〇") for _ in range(r.randint(1, 12)))



def random_unicode(r):
    ranges = [
        (0x20, 0x7F), (0x80, 0x250), (0x250, 0x370), (0x300, 0x370), (0x370, 0x600), (0x600, 0x780), (0x900, 0xE00), (0xE00, 0x1100),
        (0x1E00, 0x2100), (0x2000, 0x2C00), (0x2C00, 0x3100), (0x3000, 0xA000), (0xA000, 0xAC00), (0xAC00, 0xD7B0),
        (0xE000, 0xFFFE), (0x10000, 0x11000), (0x1D000, 0x1F000), (0x1F000, 0x20000), (0x20000, 0x30000), (0x0, 0x110000),
    ]
    picked = [r.choice(ranges) for _ in range(r.randint(1, 3))]
    out = []
    for _ in range(r.randint(1, 24)):
        lo, hi = r.choice(picked)
        code = r.randrange(lo, hi)
        if 0xD800 <= code < 0xE000:
            continue
        out.append(chr(code))
        if r.random() < 0.15:
            out.append(r.choice(" \n'"))
    return "".join(out)


def controls(r):
    return "".join(chr(r.choice([r.randrange(32), r.randrange(0x7F, 0xA0), 0x200B, 0x200D, 0xFEFF, 0xFFFD, 0xFFFF, 0x61])) for _ in range(r.randint(1, 12)))


def piece(r, texts):
    text = r.choice(texts)
    a = r.randrange(len(text))
    return text[a : a + r.randint(1, 60)]


def mixture(r):
    makers = [
        lambda: piece(r, PROSE), lambda: piece(r, CODE), lambda: r.choice(EMOJI), lambda: r.choice(COMBINING), lambda: number(r),
        lambda: white_space(r), lambda: random_unicode(r)[:6], lambda: r.choice(SPECIAL), lambda: r.choice(["'S", "'ll", "’ve", "'RE", "'ſ"]),
    ]
    return "".join(r.choice(makers)() for _ in range(r.randint(2, 5)))


def strings():
    """All strings, without repetition, in a fixed order."""
    r = random.Random(20240229)
    out = PROSE + CODE + EMOJI + COMBINING + SPECIAL + [c * n for c in "a= \n\t▁😀é-0Aम" for n in (1, 2, 3, 7, 16, 31, 32, 33, 100)]
    out += [s.upper() for s in PROSE] + [unicodedata.normalize("NFD", s) for s in PROSE] + [s.title() for s in PROSE]
    for make, count in [
        (lambda: piece(r, PROSE), 300), (lambda: piece(r, CODE), 250), (lambda: white_space(r), 300), (lambda: number(r), 200),
        (lambda: random_unicode(r), 500), (lambda: controls(r), 100), (lambda: mixture(r), 600),
        (lambda: "".join(r.choice("abAB'sStT 1\n.é中ǅʰ\u0301") for _ in range(r.randint(3, 25))), 250),
    ]:
        out += [make() for _ in range(count)]
    return list(dict.fromkeys(out))
