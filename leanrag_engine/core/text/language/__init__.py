"""Written language: sentences, words and names. Chinese and Japanese text is cut into words by the same
segmenter before indexing and before searching: jieba for Chinese, Sudachi where kana occur. Korean has
spaces. Scripts with neither spaces nor a segmenter here (Thai, Khmer, Lao) are kept as they are."""
